"""Where a difference arises among functions of one side: behind a value that both sides have, and before indices."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

NODES = 7
EDGES = torch.randint(0, NODES, (2, 15), generator=torch.Generator().manual_seed(6))


class Graph(nn.Module):
    """Sums what neighbours send: by ``scatter_add``, or as a product with a matrix of ones (``other``). A fault leaves
    out the division by their number."""

    def __init__(self, ways: set[str]) -> None:
        super().__init__()
        self.ways = ways
        self.line = nn.Linear(5, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sent, (source, end) = self.line(x), EDGES
        number = torch.zeros(NODES).scatter_add(0, end, torch.ones(EDGES.shape[1])).clamp(min=1)
        if "other" in self.ways:
            received = torch.zeros(NODES, NODES).index_put((end, source), torch.ones(15), accumulate=True) @ sent
        else:
            received = torch.zeros_like(sent).scatter_add(0, end[:, None].expand(-1, 8), sent[source])
        if "wrong" not in self.ways:
            received = received / number[:, None]  # right line of Graph
        return F.relu(received)  # first use in Graph


class Experts(nn.Module):
    """Two of three experts for each row, chosen by ``nonzero`` or by ``where``. A fault does not divide their shares by
    the sum."""

    def __init__(self, ways: set[str]) -> None:
        super().__init__()
        self.ways = ways
        self.gate, self.experts = nn.Linear(5, 3), nn.ModuleList(nn.Linear(5, 5) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, chosen = self.gate(x).softmax(-1).topk(2, -1)
        if "wrong" not in self.ways:
            shares = shares / shares.sum(-1, keepdim=True)  # right line of Experts
        total = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            is_chosen = chosen == number
            rows, places = torch.where(is_chosen) if "other" in self.ways else is_chosen.nonzero(as_tuple=True)
            total = total.index_add(0, rows, expert(x[rows]) * shares[rows, places, None])
        return total


MODELS = {"Graph": Graph, "Experts": Experts}


class Whole(nn.Module):
    def __init__(self, name: str, ways: set[str]) -> None:
        super().__init__()
        self.begin, self.block, self.end = nn.Linear(5, 5), MODELS[name](ways), nn.LazyLinear(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(self.block(torch.tanh(self.begin(x))))


def record(folder: Path, name: str, ways: str) -> None:
    """Record one step of a model; ``ways`` are words."""
    forget()
    torch.manual_seed(0)
    x = torch.randn(NODES, 5)
    model = Whole(name, set(ways.split()))
    model.end.initialize_parameters(torch.zeros(1, 8 if name == "Graph" else 5))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(x).square().mean().backward()
    forget()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_other_functions_are_no_difference(recordings: Recordings, name: str) -> None:
    sides = recordings(record, name, "other"), recordings(record, name, "")
    assert [msprobe.compare(*pair).verdict for pair in (sides, sides[::-1])] == ["same", "same"]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("ways", ["wrong", "wrong other"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_call_that_one_side_lacks_is_named(recordings: Recordings, name: str, ways: str, turned: bool) -> None:
    sides = recordings(record, name, ways), recordings(record, name, "")
    found = msprobe.compare(*(sides[::-1] if turned else sides)).summary.first_divergence
    assert found is not None and found.module == f"block.{name}"
    texts = Path(__file__).read_text(encoding="utf-8").splitlines()
    lines = [number for number, text in enumerate(texts, 1) if text.endswith((f"line of {name}", f"use in {name}"))]
    assert any(f":{number} " in found.source for number in lines), (found.source, found.reason)


def joined(way: str, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return what is made of two results by what leaves no record, in several ways."""
    if way == "cat":
        return torch.cat([left, right])
    if way == "stack":
        return torch.stack([left, right])
    if way == "hstack":
        return torch.hstack([left, right])
    if way == "rows":
        return torch.cat([left[1:], right[[0, 2, 3]]])
    both = torch.empty(2, *left.shape)
    both[0], both[1] = left, right
    return both


class Ends(nn.Module):
    def __init__(self, way: str, fault: str) -> None:
        super().__init__()
        self.way, self.fault = way, fault

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return ends(self.way, self.fault, left, right)


def ends(way: str, fault: str, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    far = right + 3.0 if fault else right - 3.0  # what is joined
    near = left * 0.5
    return torch.exp(joined(way, near, far)).mean()  # first use of it


def record_joined(folder: Path, way: str, place: str, fault: str) -> None:
    forget()
    torch.manual_seed(3)
    line, inside, (x, y) = nn.Linear(5, 6), Ends(way, fault), torch.randn(2, 4, 5)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=nn.ModuleList([line, inside])):
        values = line(x).tanh(), line(y).sigmoid()
        (inside(*values) if place == "inside" else ends(way, fault, *values)).backward()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("place", ["outside", "inside"])
@pytest.mark.parametrize("way", ["cat", "stack", "hstack", "rows", "setitem"])
def test_what_is_joined_is_named_and_not_the_first_call_that_gets_the_whole(
    recordings: Recordings, way: str, place: str, turned: bool
) -> None:
    runs = [recordings(record_joined, way, place, fault) for fault in ("wrong", "")]
    found = msprobe.compare(*(runs[::-1] if turned else runs)).summary.first_divergence
    assert found is not None and "# what is joined" in found.source, found.source
