"""Run recorded calls of MSAdapter again: its functions, on MindSpore's tensors, in a dynamic graph."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import mindspore

from msprobe.adapters.mindspore.replay.runner import MindSporeReplayer
from msprobe.adapters.msadapter.backend import read_table
from msprobe.adapters.msadapter.detection import torch_of_msadapter
from msprobe.adapters.msadapter.replay.functions import RecordedFunctions
from msprobe.core.interruption import ignored


def make_replayer(custom: Mapping[str, Any] | None = None) -> MindSporeReplayer:
    """Return what runs the calls of MSAdapter again, and those of the user's modules (prefix -> module).

    Raises:
        ImportError: MSAdapter is not there.
    """
    torch = _namespace()
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    return MindSporeReplayer(RecordedFunctions(torch, read_table()["apis"], custom))


def _namespace() -> ModuleType:
    """Return the torch-shaped namespace: the one that the process has, or that a package brings."""
    for name in ("", "mindtorch", "torch"):
        with ignored(ImportError):
            if name:
                importlib.import_module(name)
            if (torch := torch_of_msadapter()) is not None:
                return torch
    raise ImportError("MSAdapter is not there: put the folder of its torch first on PYTHONPATH, or install mindtorch")
