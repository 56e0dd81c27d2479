"""One program twice, which moves values wrongly in one run: the line that moves them is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.torch


class Gated(nn.Module):
    """The last rows of a batch, the axes exchanged: only moved before a call gets them."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.wide = fault, nn.Linear(6, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.wide(x).chunk(2, -1)
        mixed = torch.sigmoid(gate) * value
        rows = mixed[1:] if self.fault != "rows" else mixed[:-1]  # rows
        merged = rows.transpose(0, 1).reshape(-1) if self.fault != "order" else rows.reshape(-1)  # order
        return torch.tanh(merged)


def record(folder: Path, fault: str) -> None:
    forget()
    torch.manual_seed(0)
    model, x = Gated(fault), torch.randn(4, 3, 6)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        (model(x) * torch.arange(36.0)).sum().backward()
    forget()


@pytest.mark.parametrize("fault", ["rows", "order"])
def test_the_line_that_moves_values_wrongly_is_named(recordings: Recordings, fault: str) -> None:
    first = msprobe.compare(recordings(record, fault), recordings(record, "")).summary.first_divergence
    assert first is not None and first.target == "Torch.tanh.0.forward" and first.module in (None, "Gated")
    assert first.source.endswith(f"# {fault}") and "which moves values and is no entry" in first.reason


def test_the_same_moves_are_the_same(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(record, ""), recordings(record, "")).verdict == "same"
