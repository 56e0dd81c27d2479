"""The older names of the comparison: ``compare``, ``pt_compare``, ``ms_compare`` and the ``_distributed`` ones.

    from msprobe.pytorch import compare
    compare({"npu_json_path": "a/dump.json", "bench_json_path": "b/dump.json"}, "./output")

All of them are ``msprobe.compare(target, golden, output=...)``, which is what new code should call.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.jobs.compare_options import load_mapping_options

_TARGET = ("npu_path", "npu_json_path", "target_path")
_GOLDEN = ("bench_path", "bench_json_path", "golden_path")
_IN_ORDER = ("stack_mode", "auto_analyze", "fuzzy_match", "highlight")
_QUIET = {"stack_mode", "auto_analyze", "highlight", "is_print_compare_log", "stack_json_path"}
_MAPPINGS = {
    *("fuzzy_match", "cell_mapping", "api_mapping", "data_mapping", "layer_mapping"),
    *("consistent_check", "backend"),
}
_PASSED_ON = {*_MAPPINGS, "suffix", "xlsx", "config"}
_FIRST = "first_diff_analyze"


def compare(input_param: Mapping[str, Any], output_path: str, *in_order: Any, **options: Any) -> Any:
    """Compare the two dumps that ``input_param`` names and write the table into ``output_path``.

    ``options`` are fuzzy_match, cell_mapping, api_mapping, data_mapping, layer_mapping, consistent_check with backend,
    suffix, xlsx, config (matrices to multiply tensors with), is_print_compare_log (a line per value) and
    first_diff_analyze (the documents of ``msprobe compare -da`` in place of a table); the ones that asked for more of
    the table (stack_mode, highlight) are always on.

    Raises:
        MsprobeException: a path is missing, the dumps cannot be read or compared.
    """
    if not isinstance(input_param, Mapping):
        raise MsprobeException(0, f"compare: input_param is a dict with npu_path and bench_path, got {input_param!r}")
    if len(in_order) > len(_IN_ORDER):
        raise MsprobeException(0, f"compare: at most {2 + len(_IN_ORDER)} arguments go without a name")
    given = {**dict(zip(_IN_ORDER, in_order, strict=False)), **options}
    given.setdefault("is_print_compare_log", input_param.get("is_print_compare_log"))
    return _compared(_path(input_param, _TARGET), _path(input_param, _GOLDEN), output_path, given)


def pt_compare(input_param: Mapping[str, Any], output_path: str, **options: Any) -> Any:
    """See ``compare``."""
    return compare(input_param, output_path, **options)


def ms_compare(input_param: Mapping[str, Any], output_path: str, **options: Any) -> Any:
    """See ``compare``; MindSpore is not needed for it."""
    return compare(input_param, output_path, **options)


def compare_distributed(npu_dump_dir: str, bench_dump_dir: str, output_path: str, **options: Any) -> Any:
    """Compare all ranks of two step folders and write one table per rank into ``output_path``.

    Raises:
        MsprobeException: a suffix is given, where the ranks have theirs; or see ``compare``.
    """
    if options.get("suffix"):
        raise MsprobeException(0, "compare_distributed: no suffix is possible, the names of the tables hold the rank")
    return _compared(npu_dump_dir, bench_dump_dir, output_path, options)


def ms_compare_distributed(npu_dump_dir: str, bench_dump_dir: str, output_path: str, **options: Any) -> Any:
    """See ``compare_distributed``."""
    return compare_distributed(npu_dump_dir, bench_dump_dir, output_path, **options)


def _compared(target: str, golden: str, output: str, options: Mapping[str, Any]) -> Any:
    first = bool(options.get(_FIRST))
    used = _MAPPINGS if first else _PASSED_ON
    unused = sorted(name for name, value in options.items() if value and name not in {*_QUIET, *used, _FIRST})
    if unused:
        beside = f" beside {_FIRST}" if first else " by this version"
        logger.warning("compare: %s not used%s", ", ".join(unused), beside)
    chosen = {name: value for name, value in options.items() if value and name in used}
    if first:
        from msprobe.analyze.diff_analyze import diff_analyze

        return diff_analyze(target, golden, output, mapping=load_mapping_options(chosen))
    logged = bool(options.get("is_print_compare_log"))
    whole = importlib.import_module("msprobe.compare").compare
    return whole(target, golden, output=output, log_items=logged, **chosen)


def _path(given: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if given.get(name):
            return str(given[name])
    raise MsprobeException(0, f"compare: input_param has none of {', '.join(names)}")
