"""What MindSpore's runtime is asked for by task ``exception_dump``: the operands of the kernel that failed.

Fields as in MindSpore's documentation of its dump settings; ``op_debug_mode`` 4 means "only kernels that failed".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msprobe.core.config import DumpConfig
from msprobe.core.store.atomic import make_folder, write_atomic

NAME = "kernel_graph_exception_dump.json"
OTHER_NAME = "kernel_graph_exception_check.json"
"""As other versions of the tool spell it."""

_RANKS_WITHOUT_FILTER = list(range(8))


def exception_document(config: DumpConfig) -> dict[str, dict[str, Any]]:
    """The request; ``list``, ``data_mode`` and ``step`` have no meaning for a failure and are not in it."""
    return {
        "common_dump_settings": {
            "dump_mode": 0,
            "path": str(Path(config.dump_path).absolute()),
            "net_name": "Net",
            "iteration": "all",
            "saved_data": "tensor",
            "input_output": 0,
            "kernels": [],
            "support_device": list(config.rank) or _RANKS_WITHOUT_FILTER,
            "op_debug_mode": 4,
            "file_format": "npy",
        },
        "e2e_dump_settings": {"enable": not config.async_dump, "trans_flag": True},
    }


def write_exception_request(config: DumpConfig) -> Path:
    """Write the request into ``dump_path`` and return its absolute path. Raises OSError."""
    folder = Path(config.dump_path).absolute()
    make_folder(folder)
    path = folder / NAME
    write_atomic(path, [json.dumps(exception_document(config), indent=4).encode()])
    return path


def find_exception_request(folder: Path) -> Path | None:
    """The request in ``folder``, under either spelling of its name."""
    return next((path for name in (NAME, OTHER_NAME) if (path := folder / name).is_file()), None)
