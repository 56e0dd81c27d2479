"""Rows of a result of several steps are those of its tables: each step is judged by what those before showed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import nn

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.q(x) @ self.k(x).mT / 4, -1) @ self.v(x)


def _train(folder: Path, turned: bool) -> Path:
    """Four steps of Adam; ``turned`` gives the samples of each batch in another order, so sums round otherwise.

    The projection sees that order, so it is not recorded.
    """
    forget()
    section = {"projection": False}
    debugger = PrecisionDebugger({
        "task": "statistics",
        "level": "mix",
        "dump_path": str(folder),
        "statistics": section,
    })
    torch.manual_seed(0)
    model = Attention()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(4):
        batch = torch.randn(4, 32, 16, generator=torch.Generator().manual_seed(step))
        batch = batch.flip(0) if turned else batch
        with debugger.collect(model):
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    forget()
    return folder


def test_rows_have_the_verdicts_of_the_tables(tmp_path: Path) -> None:
    """The bias of the key has a gradient of rounding noise, of which Adam makes an update in the first step."""
    target, golden = _train(tmp_path / "target", True), _train(tmp_path / "golden", False)
    result = msprobe.compare(target, golden, output=tmp_path / "out")
    tables = [csv.DictReader(path.read_text().splitlines()) for path in sorted((tmp_path / "out").glob("*.csv"))]
    assert len(tables) == 4
    written = [(row["NPU Name"], row["Result"]) for table in tables for row in table]
    assert [(row.target, row.level) for row in result.rows()] == written
    assert {level for _, level in written} == {"pass"} and result.verdict == "same"
