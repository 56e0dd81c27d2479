"""Experts that compute all tokens on one side, and only those that chose them on the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.rows.summary import FirstDivergence
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Experts(torch.nn.Module):
    def __init__(self, way: str, fault: str) -> None:
        super().__init__()
        self.way, self.fault = way, fault
        self.gate = torch.nn.Linear(8, 4, bias=False)
        self.experts = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.GELU(), torch.nn.Linear(12, 8)) for _ in range(4)
        )

    def forward(self, tokens: Any) -> Any:
        weights, chosen = torch.topk(torch.softmax(self.gate(tokens), -1), 2, dim=-1)
        if self.fault == "other choice":
            chosen = (chosen + 1).remainder(4)
        if self.way == "dense":
            share = torch.zeros(len(tokens), 4).scatter(1, chosen, weights)
            results = torch.stack([expert(tokens) for expert in self.experts], 1)
            return (results * share.unsqueeze(-1)).sum(1)
        result = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            result = result.index_add(0, rows, expert(tokens[rows]) * weights[rows, places].unsqueeze(-1))
        return result


def record(folder: Path, way: str, fault: str, loss: str = "squares") -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), Experts(way, fault), torch.nn.LayerNorm(8))
    if fault == "weight":
        with torch.no_grad():
            model[1].experts[2][0].weight[1, 2] += 0.5
    inputs = torch.randn(20, 6)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        result = model(inputs)
        # the gradient of the squares cancels in the norm: what is left of it is rounding
        (result.square() if loss == "squares" else result * torch.linspace(-1, 1, 8)).mean().backward()
    forget()


def first(recordings: Recordings, target: tuple[str, ...], golden: tuple[str, ...]) -> FirstDivergence | None:
    return msprobe.compare(recordings(record, *target), recordings(record, *golden)).summary.first_divergence


@pytest.mark.parametrize("loss", ["squares", "products"])
def test_all_tokens_or_the_chosen_ones_are_the_same(recordings: Recordings, loss: str) -> None:
    assert first(recordings, ("dense", "", loss), ("routed", "", loss)) is None
    assert first(recordings, ("routed", "", loss), ("dense", "", loss)) is None


@pytest.mark.parametrize(("target", "golden"), [("dense", "routed"), ("routed", "dense"), ("dense", "dense")])
def test_the_weight_of_an_expert_is_named(target: str, golden: str, recordings: Recordings) -> None:
    for pair in (((target, "weight"), (golden, "")), ((golden, ""), (target, "weight"))):
        found = first(recordings, *pair)
        assert found is not None and found.module == "1.experts.2.0.Linear", found
        assert found.reason.startswith("parameters.weight: ")


@pytest.mark.parametrize(("target", "golden"), [("dense", "routed"), ("routed", "dense")])
def test_another_choice_of_experts_is_named(target: str, golden: str, recordings: Recordings) -> None:
    found = first(recordings, (target, "other choice"), (golden, ""))
    assert found is not None and found.module == "1.Experts", found
    assert Path(__file__).name in found.source


class Owned(torch.nn.Module):
    """Experts that compute the rows which an index gives them; with the fault two of them exchange their rows."""

    def __init__(self, way: str, fault: str) -> None:
        super().__init__()
        self.way, self.fault = way, fault
        self.experts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))

    def forward(self, tokens: Any) -> Any:
        numbers = torch.arange(2)
        if self.fault:
            numbers = numbers.flip(0)  # the fault
        owner = numbers.repeat_interleave(torch.tensor([7, 13]))
        result = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            if self.way == "rows":
                mine = torch.nonzero(owner == number).flatten()
                result = torch.index_copy(result, 0, mine, expert(torch.index_select(tokens, 0, mine)))
            elif self.way == "elements":
                mine = torch.nonzero(owner == number).expand(-1, 8)
                result = torch.scatter(result, 0, mine, expert(torch.gather(tokens, 0, mine)))
            else:
                mine = (owner == number).unsqueeze(1)
                chosen = torch.masked_select(tokens, mine).view(-1, 8)
                result = torch.masked_scatter(result, mine, expert(chosen))
        return result


def record_owned(folder: Path, way: str, fault: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), Owned(way, fault), torch.nn.Linear(8, 3))
    inputs, goal = torch.randn(20, 6), torch.arange(20) % 3
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        torch.nn.functional.cross_entropy(model(inputs), goal).backward()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("way", ["rows", "elements", "mask"])
def test_rows_that_two_experts_exchange_are_chosen_where_the_index_is_made(
    way: str, turned: bool, recordings: Recordings
) -> None:
    runs = [recordings(record_owned, way, fault) for fault in ("exchanged", "")]
    found = msprobe.compare(*(runs[::-1] if turned else runs)).summary.first_divergence
    assert found is not None and found.module == "1.Owned", found
    assert "# the fault" in found.source, found.source
