"""Record a program of this folder and judge it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.check.findings import CheckDocument
from msprobe.check.job import check
from tests.fresh_debugger import forget


def judged(folder: Path, program: Callable[..., None], *arguments: Any) -> CheckDocument:
    """Return the result of a program, recorded at level mix."""
    import torch

    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    try:
        program(debugger, *arguments)
    finally:
        forget()
    return check([folder])
