"""A module that one run calls for halves of a batch, in 16 bits: what is put together has the digits of its pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import msprobe  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = pytest.mark.torch
WORDS = torch.arange(960).view(40, 24) % 11


def record(folder: Path, *, halves: bool, factor: float = 1.0) -> Path:
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(11, 33)).bfloat16()
    if factor != 1.0:
        model[0].register_forward_hook(lambda module, given, result: result * factor)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model), torch.no_grad():
        states = torch.cat([model(part) for part in WORDS.chunk(2)]) if halves else model(WORDS)
        torch.tanh(states)
    forget()
    return folder


def compared(folder: Path, factor: float) -> Any:
    halves = record(folder / "target", halves=True, factor=factor)
    return msprobe.compare(halves, record(folder / "golden", halves=False))


def test_halves_are_the_whole_with_its_digits(tmp_path: Path) -> None:
    result = compared(tmp_path, 1.0)
    assert result.verdict == "same", result.summary.first_divergence


def test_halves_with_a_factor_are_not(tmp_path: Path) -> None:
    assert compared(tmp_path, 1.05).verdict == "diverged"
