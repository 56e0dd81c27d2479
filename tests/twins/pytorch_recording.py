"""What the programs of PyTorch share: they record steps of a model, and run from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

torch.set_num_threads(1)


def record_steps(path: Path, level: str, model: nn.Module, step: Callable[[], Any], count: int = 1) -> None:
    """Record ``count`` steps of a model at a level into ``path``."""
    forget()
    debugger = PrecisionDebugger(task="statistics", level=level, dump_path=str(path))
    for _ in range(count):
        debugger.start(model)
        step()
        debugger.stop()
        debugger.step()
    forget()


def run(record: Callable[[str, Path], None]) -> None:
    """Record the programs that the command line names, ``FOLDER NAME...``; weights go to ``FOLDER/weights``."""
    folder, *names = sys.argv[1:]
    (Path(folder) / "weights").mkdir()
    for name in names:
        record(name, Path(folder))
