"""A variance as the difference of two large numbers: the reason says that rounding may look like this."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.compare.rows.summary import FirstDivergence
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
_NOTE = "msprobe noise --perturb"


class Scale(torch.nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        shifted = inputs + 30.0
        mean = shifted.mean(-1, keepdim=True)
        if self.way == "two passes":
            variance = (shifted - mean).square().mean(-1, keepdim=True)
        else:
            variance = shifted.square().mean(-1, keepdim=True) - mean * mean
        if self.way == "fault":
            variance = variance * 1.3
        return (shifted - mean) / (variance + 1e-6).sqrt()


def record(folder: Path, way: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model, inputs = torch.nn.Sequential(torch.nn.Linear(16, 32), Scale(way), torch.nn.Linear(32, 4)), torch.randn(8, 16)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        model(inputs).square().mean().backward()
    forget()


def first(recordings: Recordings, way: str, golden: str = "one pass") -> FirstDivergence:
    found = msprobe.compare(recordings(record, way), recordings(record, golden)).summary.first_divergence
    assert found is not None
    return found


def test_a_small_difference_names_the_measurement(recordings: Recordings) -> None:
    assert _NOTE in first(recordings, "two passes").reason


def test_a_large_difference_does_not(recordings: Recordings) -> None:
    assert _NOTE not in first(recordings, "fault").reason
