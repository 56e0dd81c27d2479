"""A fault in code that leaves no record: the line that the right program lacks is named, not one that both have."""

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


def scaled(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * by


class Pairs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        products = torch.bmm(x, x.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, -1)
        return products[:, rows, columns]


class OtherPairs(Pairs):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        products = torch.bmm(x, x.transpose(1, 2))
        rows, columns = torch.triu_indices(4, 4, 1)  # the fault
        return products[:, rows, columns]


OtherPairs.__name__ = Pairs.__name__  # as in a program that was edited


class Right(nn.Module):
    pairs: type[Pairs] = Pairs

    def __init__(self) -> None:
        super().__init__()
        self.up, self.cross, self.down = nn.Linear(6, 4), self.pairs(), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mixed(self.halves(x), x)

    def halves(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(self.up(x), x[:, :, 2:])

    def mixed(self, one: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        two = self.up(x)
        return self.down(self.cross(one - two))


class OtherPart(Right):
    def halves(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(self.up(x), x[:, :, :4])  # the fault


class Detached(Right):
    def mixed(self, one: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        two = self.up(x).detach()  # the fault
        return self.down(self.cross(one - two))


class OtherIndices(Right):
    pairs = OtherPairs


def record(folder: Path, kind: type[Right]) -> None:
    forget()
    torch.manual_seed(0)
    model, x = kind(), torch.randn(3, 4, 6)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        (model(x) * torch.arange(6.0).view(3, 2)).sum().backward()
    forget()


def record_beside(folder: Path, kind: type[Right]) -> None:
    """Record in a program that begins in another line."""
    record(folder, kind)


@pytest.mark.parametrize("kind", [OtherPart, Detached, OtherIndices])
@pytest.mark.parametrize("other", [record, record_beside])
def test_the_line_of_the_fault_is_named(recordings: Recordings, kind: type[Right], other: object) -> None:
    first = msprobe.compare(recordings(other, kind), recordings(record, Right)).summary.first_divergence
    assert first is not None and first.source.endswith("# the fault"), first
    assert "in this line" in first.reason
    assert first.module == ("cross.Pairs" if kind is OtherIndices else None)


def test_lines_around_all_calls_are_not_named(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(record_beside, Right), recordings(record, Right)).verdict == "same"
    first = msprobe.compare(recordings(record_beside, OtherPart), recordings(record_beside, Right))
    assert first.summary.first_divergence is not None
    assert first.summary.first_divergence.source.endswith("# the fault")
