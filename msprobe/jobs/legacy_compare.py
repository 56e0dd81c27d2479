"""The comparison under the names of earlier versions: ``compare``, ``pt_compare``, ``ms_compare``, ``*_distributed``.

    from msprobe.pytorch import compare
    compare({"npu_json_path": "a/dump.json", "bench_json_path": "b/dump.json"}, "./output")

All of them call ``msprobe.compare(target, golden, output=...)``; new code should call it directly.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from msprobe.analyze.diff_analyze import diff_analyze
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
    first_diff_analyze (the documents of ``msprobe compare -da`` in place of a table). Options that added to the table
    (stack_mode, highlight) are always on.

    Raises:
        MsprobeException: a path is missing, the dumps cannot be read or compared.
    """
    if not isinstance(input_param, Mapping):
        raise MsprobeException(0, f"compare: input_param is a dict with npu_path and bench_path, got {input_param!r}")
    if len(in_order) > len(_IN_ORDER):
        raise MsprobeException(0, f"compare: at most {2 + len(_IN_ORDER)} arguments go without a name")
    arguments = {**dict(zip(_IN_ORDER, in_order, strict=False)), **options}
    arguments.setdefault("is_print_compare_log", input_param.get("is_print_compare_log"))
    return _run(_path(input_param, _TARGET), _path(input_param, _GOLDEN), output_path, arguments)


def pt_compare(input_param: Mapping[str, Any], output_path: str, **options: Any) -> Any:
    """Compare two dumps as ``compare`` does."""
    return compare(input_param, output_path, **options)


def ms_compare(input_param: Mapping[str, Any], output_path: str, **options: Any) -> Any:
    """Compare two dumps as ``compare`` does; MindSpore need not be installed."""
    return compare(input_param, output_path, **options)


def compare_distributed(npu_dump_dir: str, bench_dump_dir: str, output_path: str, **options: Any) -> Any:
    """Compare all ranks of two step folders and write one table per rank into ``output_path``.

    Raises:
        MsprobeException: a suffix is given, although the names of the tables hold the rank; or as for ``compare``.
    """
    if options.get("suffix"):
        raise MsprobeException(0, "compare_distributed: no suffix is possible, the names of the tables hold the rank")
    return _run(npu_dump_dir, bench_dump_dir, output_path, options)


def ms_compare_distributed(npu_dump_dir: str, bench_dump_dir: str, output_path: str, **options: Any) -> Any:
    """Compare all ranks as ``compare_distributed`` does."""
    return compare_distributed(npu_dump_dir, bench_dump_dir, output_path, **options)


def _run(target: str, golden: str, output: str, options: Mapping[str, Any]) -> Any:
    """Call the comparison with the options that it has, and warn of the others."""
    first = bool(options.get(_FIRST))
    used = _MAPPINGS if first else _PASSED_ON
    unused = sorted(name for name, value in options.items() if value and name not in {*_QUIET, *used, _FIRST})
    if unused:
        beside = f" beside {_FIRST}" if first else " by this version"
        logger.warning("compare: %s not used%s", ", ".join(unused), beside)
    passed_on = {name: value for name, value in options.items() if value and name in used}
    if first:
        return diff_analyze(target, golden, output, mapping=load_mapping_options(passed_on))
    logged = bool(options.get("is_print_compare_log"))
    compare_all = importlib.import_module("msprobe.compare").compare
    return compare_all(target, golden, output=output, log_items=logged, **passed_on)


def _path(input_param: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the value of the first of these keys that is given."""
    for name in names:
        if input_param.get(name):
            return str(input_param[name])
    raise MsprobeException(0, f"compare: input_param has none of {', '.join(names)}")
