"""Find the reader of a framework's checkpoint files by its import path: core names adapters and never imports them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.core.errors import MsprobeException

_CHECKPOINT_READERS = {"pytorch": "msprobe.adapters.pytorch.checkpoint_file"}


def find_checkpoint_reader(name: str, path: Path) -> Callable[[Path], Any]:
    """Return the function that reads the checkpoint files of the framework ``name``.

    Raises:
        MsprobeException: the framework is not installed, and ``path`` cannot be read without it.
    """
    try:
        reader: Callable[[Path], Any] = importlib.import_module(_CHECKPOINT_READERS[name]).read_checkpoint
    except ImportError as error:
        raise MsprobeException(
            0,
            f"{path}: cannot be read without {error.name or name}, which is not installed: pip install msprobe[torch]",
        ) from error
    return reader
