"""What Ascend is asked for to get statistics of cells in a static graph: those of its ``TensorDump`` kernels alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.core.config import DumpConfig

_CATEGORIES = {"mean": "avg"}
_DEFAULT = ("max", "min", "avg", "l2norm")
_RANKS_WITHOUT_FILTER = list(range(8))
SKIP_VARIABLE = "MS_KERNEL_LAUNCH_SKIP"
"""Set to ``TensorDump`` with this request: the kernels are measured, not launched."""


def cell_request_name(rank: int | None) -> str:
    return f"{rank or 0}kernel_kbyk_dump.json"


def cell_document(config: DumpConfig) -> dict[str, dict[str, Any]]:
    """The request for task statistics at level L0."""
    chosen = config.section.summary_mode
    names = [_CATEGORIES.get(name, name) for name in chosen] if isinstance(chosen, tuple) else list(_DEFAULT)
    return {
        "common_dump_settings": {
            "op_debug_mode": 0,
            "dump_mode": 1,
            "path": str(Path(config.dump_path).absolute()),
            "net_name": "Net",
            "iteration": "all",
            "saved_data": "statistic",
            "input_output": 0,
            "kernels": ["TensorDump"],
            "support_device": list(config.rank) or _RANKS_WITHOUT_FILTER,
            "statistic_category": names,
        },
        "e2e_dump_settings": {"enable": False, "trans_flag": True, "stat_calc_mode": "device"},
    }
