"""What the programs of MindSpore share: they record steps of a model, and run from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import nn

from msprobe.mindspore import PrecisionDebugger
from tests.fresh_debugger import forget


def record_steps(path: Path, level: str, model: nn.Cell, step: Callable[[], Any], count: int = 1) -> None:
    """Record ``count`` steps of a model at a level into ``path``."""
    forget("msprobe.mindspore")
    debugger = PrecisionDebugger({"task": "statistics", "level": level, "dump_path": str(path)})
    for _ in range(count):
        debugger.start(model)
        step()
        debugger.stop()
        debugger.step()
    forget("msprobe.mindspore")


def run(record: Callable[[str, Path], None]) -> None:
    """Record the programs that the command line names, ``FOLDER NAME...``, with the weights that PyTorch wrote."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.runtime.launch_blocking()
    folder, *names = sys.argv[1:]
    for name in names:
        record(name, Path(folder))
