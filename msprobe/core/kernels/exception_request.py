"""Write the request of task ``exception_dump`` to MindSpore's runtime: the operands of the kernel that failed.

The fields are those of MindSpore's documentation of its dump settings; ``op_debug_mode`` 4 means "only kernels that
failed".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msprobe.core.config import DumpConfig
from msprobe.core.store.atomic import make_folder, write_atomic

EXCEPTION_REQUEST = "kernel_graph_exception_dump.json"
OTHER_EXCEPTION_REQUEST = "kernel_graph_exception_check.json"
"""The name in other versions of the tool."""

_ALL_DEVICES = list(range(8))


def exception_document(config: DumpConfig) -> dict[str, dict[str, Any]]:
    """Return the request. ``list``, ``data_mode`` and ``step`` are not in it: they have no meaning for a failure."""
    return {
        "common_dump_settings": {
            "dump_mode": 0,
            "path": str(Path(config.dump_path).absolute()),
            "net_name": "Net",
            "iteration": "all",
            "saved_data": "tensor",
            "input_output": 0,
            "kernels": [],
            "support_device": list(config.rank) or _ALL_DEVICES,
            "op_debug_mode": 4,
            "file_format": "npy",
        },
        "e2e_dump_settings": {"enable": not config.async_dump, "trans_flag": True},
    }


def write_exception_request(config: DumpConfig) -> Path:
    """Write the request into ``dump_path`` and return its absolute path. Raises OSError."""
    folder = Path(config.dump_path).absolute()
    make_folder(folder)
    path = folder / EXCEPTION_REQUEST
    write_atomic(path, [json.dumps(exception_document(config), indent=4).encode()])
    return path


def find_exception_request(folder: Path) -> Path | None:
    """Return the request in ``folder``, under one of its two names; None when there is none."""
    return next(
        (path for name in (EXCEPTION_REQUEST, OTHER_EXCEPTION_REQUEST) if (path := folder / name).is_file()), None
    )
