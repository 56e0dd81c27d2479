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


class Right(nn.Module):
    """The last rows of a batch, the axes exchanged: only moved before a call gets them."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(6, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.wide(x).chunk(2, -1)
        return torch.tanh(self.merged(torch.sigmoid(gate) * value))

    def merged(self, mixed: torch.Tensor) -> torch.Tensor:
        rows = mixed.split((1, 3))[1]
        return rows.transpose(0, 1).reshape(-1)


class OtherRows(Right):
    def merged(self, mixed: torch.Tensor) -> torch.Tensor:
        rows = mixed.split((3, 1))[0]  # the fault
        return rows.transpose(0, 1).reshape(-1)


class OtherOrder(Right):
    def merged(self, mixed: torch.Tensor) -> torch.Tensor:
        rows = mixed.split((1, 3))[1]
        return rows.reshape(-1)  # the fault


class Exchanged(Right):
    """It differs behind the move, in a line that calls nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.wide(x).chunk(2, -1)
        gate, value = value, gate
        return torch.tanh(self.merged(torch.sigmoid(gate) * value))  # the fault


def record(folder: Path, kind: type[Right]) -> None:
    forget()
    torch.manual_seed(0)
    model, x = kind(), torch.randn(4, 3, 6)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        (model(x) * torch.arange(36.0)).sum().backward()
    forget()


@pytest.mark.parametrize("kind", [OtherRows, OtherOrder])
def test_the_line_that_moves_values_wrongly_is_named(recordings: Recordings, kind: type[Right]) -> None:
    first = msprobe.compare(recordings(record, kind), recordings(record, Right)).summary.first_divergence
    assert first is not None and first.target == "Torch.tanh.0.forward"
    assert first.source.endswith("# the fault") and "which moves values and is no entry" in first.reason


def test_a_line_that_reads_the_same_is_not_blamed(recordings: Recordings) -> None:
    first = msprobe.compare(recordings(record, Exchanged), recordings(record, Right)).summary.first_divergence
    assert first is not None and first.source.endswith("# the fault")


def test_the_same_moves_are_the_same(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(record, Right), recordings(record, Right)).verdict == "same"
