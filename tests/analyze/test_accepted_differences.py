"""Accepted differences on recorded trainings: what is accepted makes no run diverged, and hides no other fault."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.pytorch import PrecisionDebugger
from tests.compare.dumps import call, tensor, write
from tests.fresh_debugger import forget
from tests.recordings import Recordings

GELU, ATTENUATED, LEARNING_RATE = "gelu", "attenuated", "learning rate"
ACCEPT_GELU = {"finding": "argument", "place": "Functional.gelu.*.forward", "reason": "tanh approximation, ticket 123"}


class Block(nn.Module):
    """A block of a transformer without attention; ``changes`` are the differences planted into the program."""

    def __init__(self, width: int, changes: tuple[str, ...]) -> None:
        super().__init__()
        self.changes = changes
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(self.norm(x))
        hidden = functional.gelu(hidden, approximate="tanh" if GELU in self.changes else "none")
        hidden = self.down(hidden)
        return x + torch.tanh(hidden) * (0.5 if ATTENUATED in self.changes else 1.0)


class Model(nn.Module):
    def __init__(self, changes: list[tuple[str, ...]]) -> None:
        super().__init__()
        self.first, self.second = (Block(16, own) for own in changes)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x)))


def train(folder: Path, first: tuple[str, ...], second: tuple[str, ...], level: str, steps: int) -> None:
    """Record a training with these changes in its blocks, and a wrong learning rate where the first one says so."""
    forget()
    torch.manual_seed(0)
    model = Model([first, second])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5 if LEARNING_RATE in first else 0.01)
    debugger = PrecisionDebugger(dump_path=str(folder / "dump"), level=level, step=list(range(steps)))
    batches = [(torch.randn(8, 16), torch.randn(8, 4)) for _ in range(steps)]
    for x, y in batches:
        debugger.start(model)
        functional.mse_loss(model(x), y).backward()
        optimizer.step()
        debugger.stop()
        optimizer.zero_grad()
        debugger.step()
    forget()


Run = Any


@pytest.fixture
def recorded(recordings: Recordings) -> Run:
    """Return a function: the dump of a training with these changes in its two blocks."""

    def made(first: tuple[str, ...] = (), second: tuple[str, ...] = (), level: str = "mix", steps: int = 1) -> Path:
        return recordings(train, first, second, level, steps) / "dump"

    return made


@pytest.mark.parametrize("level", ["mix", "L0", "L1"])
def test_what_follows_from_an_accepted_difference_is_none(recorded: Run, level: str) -> None:
    place = "Module.*.Block.forward.*" if level == "L0" else "Functional.gelu.*.forward"
    accept = [{"finding": "value" if level == "L0" else "argument", "place": place, "reason": "other gelu"}]
    target, golden = recorded((GELU,), (GELU,), level), recorded(level=level)
    assert msprobe.compare(target, golden).verdict == "diverged"
    result = msprobe.compare(target, golden, accept=accept)
    assert (result.verdict, result.summary.first_divergence) == ("same", None)
    assert [use.state for use in result.summary.accepted] == ["used"] and result.summary.counts.error == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param((GELU,), (ATTENUATED,), id="accepted-first"),
        pytest.param((ATTENUATED,), (GELU,), id="fault-first"),
        pytest.param((GELU, ATTENUATED), (), id="same-block"),
    ],
)
def test_an_accepted_difference_hides_no_fault(recorded: Run, first: tuple[str, ...], second: tuple[str, ...]) -> None:
    fault = [tuple(change for change in own if change == ATTENUATED) for own in (first, second)]
    alone = msprobe.compare(recorded(*fault), recorded()).summary.first_divergence
    found = msprobe.compare(recorded(first, second), recorded(), accept=[ACCEPT_GELU]).summary.first_divergence
    assert alone is not None and found is not None
    assert (found.name, found.kind, found.module) == (alone.name, alone.kind, alone.module)


def test_the_fault_alone_is_found_and_the_entry_not_used(recorded: Run) -> None:
    result = msprobe.compare(recorded((ATTENUATED,)), recorded(), accept=[ACCEPT_GELU])
    assert result.verdict == "diverged" and [use.state for use in result.summary.accepted] == ["unused"]


def test_several_steps(recorded: Run) -> None:
    target, golden = recorded((GELU,), (GELU,), steps=3), recorded(steps=3)
    result = msprobe.compare(target, golden, accept=[ACCEPT_GELU])
    assert result.verdict == "same" and result.summary.accepted[0].count == 6
    assert [comparison.row_levels.diverging.any() for comparison in result.comparisons()] == [False] * 3
    only = msprobe.compare(target, golden, accept=[{**ACCEPT_GELU, "step": 0}])
    assert only.verdict == "diverged" and only.summary.first_divergence is not None
    assert only.summary.first_divergence.step == 1 and "gelu" in only.summary.first_divergence.name


def test_a_wrong_learning_rate_beside_it_is_found(recorded: Run) -> None:
    target, golden = recorded((GELU, LEARNING_RATE), (GELU,), steps=2), recorded(steps=2)
    found = msprobe.compare(target, golden, accept=[ACCEPT_GELU]).summary.first_divergence
    assert found is not None and found.module == "optimizer"


def test_several_ranks(recorded: Run, tmp_path: Path) -> None:
    """Rank 0 has the accepted difference alone, rank 1 a fault beside it."""
    for name, ranks in {"target": [((GELU,), ()), ((GELU,), (ATTENUATED,))], "golden": [((), ())] * 2}.items():
        for number, changes in enumerate(ranks):
            (source,) = recorded(*changes).glob("step0/*")
            shutil.copytree(source, tmp_path / name / "step0" / f"rank{number}")
    for executor in ("serial", "processes:2"):
        result = msprobe.compare(tmp_path / "target", tmp_path / "golden", accept=[ACCEPT_GELU], executor=executor)
        assert [outcome.verdict for outcome in result.outcomes] == ["same", "diverged"]
        assert result.summary.first_divergence is not None and result.summary.first_divergence.rank == 1
    narrow = msprobe.compare(tmp_path / "target", tmp_path / "golden", accept=[{**ACCEPT_GELU, "rank": 0}])
    assert narrow.summary.first_divergence is not None and "gelu" in narrow.summary.first_divergence.name
    analysis = diff_analyze(tmp_path / "target", tmp_path / "golden", tmp_path / "out", accept=[ACCEPT_GELU])
    assert list(analysis.document) == ["rank_1"] and [use.count for use in analysis.accepted] == [2]


def test_diff_analyze_gives_the_same_answer(recorded: Run, tmp_path: Path) -> None:
    analysis = diff_analyze(recorded((GELU,)), recorded(), tmp_path, accept=[ACCEPT_GELU])
    assert analysis.verdict == "same" and "No other difference was found." in list(analysis.lines)
    assert any(line.startswith("Accepted: argument at Functional.gelu") for line in analysis.lines)


def chain(accepted: float = 1.0, fault: float = 1.0, **more: Any) -> dict[str, Any]:
    """Five calls, each of the result of the one before; the second is off by one factor, the fourth by another."""
    values = [1.0, 0.5, 0.4 * accepted, 0.3 * accepted, 0.25 * accepted * fault, 0.2 * accepted * fault]
    names = ("relu", "gelu", "linear", "tanh", "sum")
    return {
        f"Functional.{name}.0.forward": call([tensor(values[place])], [tensor(values[place + 1])])
        for place, name in enumerate(names)
    } | more


ACCEPT_CALL = {"finding": "value", "place": "Functional.gelu.0.forward", "reason": "known"}


def compare_chains(
    tmp_path: Path, target: dict[str, Any], accept: list[dict[str, Any]]
) -> msprobe.compare.CompareResult:
    golden = write(tmp_path / "golden", chain())
    return msprobe.compare(write(tmp_path / "target", target), golden, accept=accept)


@pytest.mark.parametrize(
    ("accepted", "fault", "verdict", "named"),
    [
        (1.001, 1.0, "same", None),
        (1.001, 1.5, "diverged", "Functional.tanh.0.forward"),
        (1.05, 2.0, "incomplete", None),
        (1.0, 1.5, "diverged", "Functional.tanh.0.forward"),
        (1.6, 1.0, "incomplete", None),
        (1.6, 1.3, "incomplete", None),
    ],
)
def test_verdicts_by_the_size_of_what_is_accepted(
    tmp_path: Path, accepted: float, fault: float, verdict: str, named: str | None
) -> None:
    result = compare_chains(tmp_path, chain(accepted, fault), [ACCEPT_CALL])
    found = result.summary.first_divergence
    assert (result.verdict, found and found.name) == (verdict, named)
    if verdict == "incomplete":
        assert "too large to see another fault" in result.summary.incomplete[0]


def test_a_larger_difference_than_accepted_is_a_divergence(tmp_path: Path) -> None:
    times = msprobe.compare(write(tmp_path / "a", chain(1.001)), write(tmp_path / "b", chain())).summary
    assert times.first_divergence is not None and times.first_divergence.times_tolerance is not None
    accept = [{**ACCEPT_CALL, "at_most": 2 * times.first_divergence.times_tolerance}]
    assert compare_chains(tmp_path, chain(1.001), accept).verdict == "same"
    assert compare_chains(tmp_path, chain(1.01), accept).verdict == "diverged"


def test_a_lost_call_can_be_accepted(tmp_path: Path) -> None:
    more = {"Module.extra.Linear.forward.0": call([tensor(0.2)], [tensor(0.9)])}
    accept = [{"finding": "missing_in_golden", "place": "extra.Linear", "reason": "a probe of the target alone"}]
    assert compare_chains(tmp_path, chain(**more), []).verdict == "diverged"
    result = compare_chains(tmp_path, chain(**more), accept)
    assert result.verdict == "same" and result.summary.accepted[0].first.endswith("of the target alone")


@pytest.mark.parametrize("slot", ["output.0", None])
def test_a_slot_narrows_an_entry_down(tmp_path: Path, slot: str | None) -> None:
    name = "Functional.gelu.0.forward"
    target = chain(1.001)
    target[name]["output"].append(tensor(0.7))
    golden = chain()
    golden[name]["output"].append(tensor(0.8))
    accept = [{**ACCEPT_CALL, **({} if slot is None else {"slot": slot})}]
    result = msprobe.compare(write(tmp_path / "t", target), write(tmp_path / "g", golden), accept=accept)
    assert result.verdict == ("same" if slot is None else "diverged")
    if result.summary.first_divergence is not None:
        assert result.summary.first_divergence.slot == "output.1"


def test_an_expired_entry_accepts_nothing(tmp_path: Path) -> None:
    result = compare_chains(tmp_path, chain(1.001), [{**ACCEPT_CALL, "expires": "2020-01-31"}])
    assert result.verdict == "diverged" and result.summary.accepted[0].state == "expired"
    assert "2020-01-31" in result.summary.accepted[0].text


def test_what_is_accepted_is_not_named_again(tmp_path: Path) -> None:
    """The next difference arises in a call before the accepted one, and shows in a value behind it."""
    sides = []
    for extra in (True, False):
        data = chain(1.001 if extra else 1.0)
        data["Functional.sum.0.forward"]["input_args"].append(tensor(0.77 if extra else 0.66))
        own = {"Functional.silu.0.forward": call([tensor(1.0)], [tensor(0.77)])} if extra else {}
        sides.append(write(tmp_path / str(extra), own | data))
    found = msprobe.compare(*sides, accept=[ACCEPT_CALL]).summary.first_divergence
    assert found is not None and found.name == "Functional.silu.0.forward of the target alone"


@settings(max_examples=25, deadline=None)
@given(
    calls=st.integers(3, 8),
    places=st.tuples(st.integers(0, 7), st.integers(0, 7)),
    sizes=st.tuples(st.floats(1e-4, 0.5), st.floats(0.4, 3.0)),
)
def test_no_large_fault_is_ever_passed(calls: int, places: tuple[int, int], sizes: tuple[float, float]) -> None:
    """Whatever is accepted, wherever the fault is: the verdict is not ``same``; a small accepted one hides nothing."""
    accepted, fault = (place % calls for place in places)
    if accepted == fault:
        return
    runs = []
    for factors in ({accepted: 1 + sizes[0], fault: 1 + sizes[1]}, {}):
        data, scale = {}, 1.0
        for number in range(calls):
            before, scale = scale, scale * 0.9 * factors.get(number, 1.0)
            data[f"Functional.f{number}.0.forward"] = call([tensor(before)], [tensor(scale)])
        runs.append(data)
    with TemporaryDirectory() as folder:
        paths = [write(Path(folder) / name, data) for name, data in zip(("target", "golden"), runs, strict=True)]
        entry = {"finding": "value", "place": f"Functional.f{accepted}.0.forward", "reason": "known"}
        result = msprobe.compare(*paths, accept=[entry])
    assert result.verdict != "same"
    if fault < accepted or sizes[0] < 0.01:
        assert result.summary.first_divergence is not None
        assert result.summary.first_divergence.name == f"Functional.f{fault}.0.forward"
