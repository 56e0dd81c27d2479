"""Backends by name, and readers of checkpoints: tables of import paths, so that core names adapters but never imports
them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.core.errors import MsprobeException

_BUILT_IN = {
    "pytorch": "msprobe.adapters.pytorch.backend",
    "mindspore": "msprobe.adapters.mindspore.backend",
    "msadapter": "msprobe.adapters.msadapter.backend",
}
_CHECKPOINT_READERS = {"pytorch": "msprobe.adapters.pytorch.checkpoint_file"}


def find_backend(name: str) -> Any:
    """The ``make`` function of a backend.

    Raises:
        MsprobeException: the name is unknown, or the framework behind it is not installed.
    """
    path = _BUILT_IN.get(name)
    if path is None:
        raise MsprobeException(0, f"no backend {name!r}; there is {', '.join(sorted(_BUILT_IN))}")
    try:
        return importlib.import_module(path).make
    except ImportError as error:
        raise MsprobeException(
            0, f"backend {name} needs a package that is not installed ({error.name}): pip install msprobe[{name}]"
        ) from error


def find_checkpoint_reader(name: str, path: Path) -> Callable[[Path], Any]:
    """The function that reads the checkpoint files of a framework.

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
