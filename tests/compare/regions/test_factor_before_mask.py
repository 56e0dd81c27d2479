"""A factor before a mask, whose large numbers hide what it does to the scores, in a module whose result agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Attention(torch.nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.query, self.key, self.value, self.out = (torch.nn.Linear(32, 32) for _ in range(4))

    def forward(self, hidden: Any, mask: Any) -> Any:
        query, key, value = (
            layer(hidden).view(2, 12, 4, 8).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        if self.way == "query scaled":
            scores = torch.matmul(query * 0.5, key.transpose(2, 3))
        else:
            scores = torch.matmul(query, key.transpose(2, 3)) * 0.5
        if self.way == "fault":
            scores = scores * 1.03  # the fault
        scores = scores + mask
        mixed = torch.matmul(torch.softmax(scores, -1, dtype=torch.float32).to(value.dtype), value)
        return self.out(mixed.transpose(1, 2).reshape(2, 12, 32))


class Model(torch.nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.attention, self.head = Attention(way), torch.nn.Linear(32, 32)

    def forward(self, hidden: Any, mask: Any) -> Any:
        return self.head(hidden + self.attention(hidden, mask))


def record(folder: Path, way: str, dtype: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    model, hidden = Model(way).to(kind), (torch.randn(2, 12, 32) * 2.0).to(kind)
    mask = torch.zeros(12, 12).masked_fill(torch.ones(12, 12).triu(1).bool(), torch.finfo(kind).min).to(kind)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        model(hidden, mask).float().square().mean().backward()
    forget()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_place_of_a_factor_is_harmless(dtype: str, recordings: Recordings) -> None:
    golden, other = recordings(record, "", dtype), recordings(record, "query scaled", dtype)
    assert msprobe.compare(other, golden).verdict == "same"
    assert msprobe.compare(golden, other).verdict == "same"


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("golden", ["", "query scaled"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_another_factor_is_named_where_it_is_applied(
    dtype: str, golden: str, turned: bool, recordings: Recordings
) -> None:
    pair = [recordings(record, "fault", dtype), recordings(record, golden, dtype)]
    found = msprobe.compare(*(pair[::-1] if turned else pair)).summary.first_divergence
    assert found is not None and found.module == "attention.Attention", found
    line = int(found.source.partition(" in ")[0].rpartition(":")[2])
    named = Path(__file__).read_text().splitlines()[line - 1]
    assert "# the fault" in named or (golden and "torch.matmul(query" in named), found
