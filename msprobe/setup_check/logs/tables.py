"""Tables of the settings in logs: two logs compared, or one checked against settings that a consistent run needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.core.yaml_file import load_yaml
from msprobe.report.csv_table import small_table
from msprobe.setup_check.logs.settings import LogKind, flat_log, read_log

_YES, _NO, _MISSING = "是", "否", "NA"
COMPARED = (
    "超参名称",
    "NPU生效值",
    "bench生效值",
    "是否一致",
)  # setting, value on the NPU, value of the benchmark, same
VERIFIED = ("关键参数名称", "bench生效值", "target生效值", "是否一致")
_LARGEST = 16 << 20

CONSISTENT_RUN: Mapping[str, Any] = {
    "VLLM_ASCEND_ENABLE_NZ": 0,
    "actor_rollout_ref/actor/load_weight": True,
    "actor_rollout_ref/actor/megatron/override_transformer_config/use_ascend_mc2": False,
    "actor_rollout_ref/actor/override_transformer_config/calculate_per_token_loss": False,
    "actor_rollout_ref/actor/shuffle": False,
    "actor_rollout_ref/actor/use_dynamic_bsz": False,
    "actor_rollout_ref/actor/use_remove_padding": True,
    "actor_rollout_ref/model/use_remove_padding": True,
    "actor_rollout_ref/ref/load_weight": True,
    "actor_rollout_ref/ref/log_prob_use_dynamic_bsz": False,
    "actor_rollout_ref/rollout/log_prob_use_dynamic_bsz": False,
    "algorithm/filter_groups/enable": False,
    "critic/model/use_remove_padding": True,
    "critic/shuffle": False,
    "critic/use_dynamic_bsz": False,
    "data/shuffle": False,
    "trainer/balance_batch": False,
}
"""What a verl run must set so that two runs can be compared step by step."""


def compare_logs(target: Path, benchmark: Path, kind: LogKind, folder: Path) -> list[str]:
    """Write both settings and ``hyper_params_compare.csv``; return a line for each that differs.

    Raises:
        ReadError: a log holds no settings.
        OSError: a file cannot be written.
    """
    sides = [read_log(path, kind) for path in (target, benchmark)]
    make_folder(folder)
    for name, settings in zip(("NPU_config.json", "bench_config.json"), sides, strict=True):
        _write_json(folder / name, settings)
    tables = [flat_log(settings) for settings in sides]
    names = sorted(tables[0].keys() | tables[1].keys())
    rows = [_row(name, tables[0].get(name, _MISSING), tables[1].get(name, _MISSING)) for name in names]
    _write_table(folder / "hyper_params_compare.csv", COMPARED, rows)
    return list(_lines(rows))


def verify_log(benchmark: Path | None, target: Path, folder: Path) -> list[str]:
    """Write the settings of a log and ``hyper_params_verify.csv``; return a line for each that is not as it should be.

    Args:
        benchmark: a ``.yaml`` of the settings to check; None for those of a run that can be compared.
        target: a log of verl.
        folder: where the results go.

    Raises:
        ReadError: a file cannot be read.
        OSError: a file cannot be written.
    """
    expected = dict(CONSISTENT_RUN) if benchmark is None else _read_yaml(benchmark)
    settings = read_log(target, "verl")
    make_folder(folder)
    _write_json(folder / "tgt_config.json", settings)
    present = flat_log(settings)
    rows = [_row(name, value, present.get(name, _MISSING)) for name, value in sorted(expected.items())]
    _write_table(folder / "hyper_params_verify.csv", VERIFIED, rows)
    return list(_lines(rows))


def _row(name: str, first: Any, second: Any) -> tuple[str, str, str, str]:
    return name, _text(first), _text(second), _YES if _equal(first, second) else _NO


def _equal(first: Any, second: Any) -> bool:
    """Return whether two values are the same: numbers by value, also where YAML reads ``1e-06`` as a text."""
    if type(first) is not type(second) and str in (type(first), type(second)):
        try:
            return float(first) == float(second)
        except (TypeError, ValueError, OverflowError):
            return False
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


def _text(value: Any) -> str:
    return value if value == _MISSING else repr(value)


def _lines(rows: list[tuple[str, str, str, str]]) -> Iterator[str]:
    return (f"{name}: {first} against {second}" for name, first, second, same in rows if same == _NO)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise ReadError(f"{path}: larger than {_LARGEST >> 20} MB; no settings")
        value = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise ReadError(f"{path}: not readable YAML ({' '.join(error_text(error).split())})") from error
    if not isinstance(value, dict) or not value:
        raise ReadError(f"{path}: holds no table of settings")
    return flat_log(value)


def _write_json(path: Path, settings: Mapping[str, Any]) -> None:
    write_atomic(
        path, [json.dumps(settings, indent=2, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")]
    )


def _write_table(path: Path, columns: tuple[str, ...], rows: list[tuple[str, str, str, str]]) -> None:
    write_atomic(path, [small_table(columns, rows).encode("utf-8-sig", "backslashreplace")])
