"""Modules that round to eight bits are known by their numbers, and alike only with the same scale and format."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.compare.parallel.identity import RankCalls, rank_calls
from msprobe.compare.parallel.layout import Coordinates
from msprobe.compare.parallel.roundings import rounded_alike
from msprobe.core.store.reader import find_dumps, load_dump
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch

FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "none": torch.float32}


class Rounding(nn.Module):
    def __init__(self, kind: str, largest: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 16))
        self.kind, self.largest = kind, largest

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.div(self.largest, torch.amax(torch.abs(x.detach())))
        x = torch.mul(x, scale).to(FORMATS[self.kind]).to(torch.float32) / scale
        return torch.matmul(x, self.weight)


def record(folder: Path, kind: str, largest: float) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model, x = nn.Sequential(*(Rounding(kind, largest) for _ in range(3))), torch.randn(8, 16)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    debugger.start(model)
    with torch.no_grad():
        model(x)
    debugger.stop()
    debugger.step()


def _ranks(folder: Path) -> list[RankCalls]:
    return rank_calls([load_dump(find_dumps(folder)[0])], [Coordinates()], 1)


@pytest.mark.parametrize(
    ("kind", "largest", "alike"),
    [("e4m3", 448.0, {"0", "1", "2"}), ("e4m3", 300.0, set()), ("e5m2", 448.0, set()), ("none", 448.0, set())],
    ids=["alike", "other-scale", "other-format", "not-rounded"],
)
def test_modules_that_round_alike(recordings: Recordings, kind: str, largest: float, alike: set[str]) -> None:
    target, golden = (_ranks(recordings(record, *what)) for what in ((kind, largest), ("e4m3", 448.0)))
    assert rounded_alike(target, golden) == alike
