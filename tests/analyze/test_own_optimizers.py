"""An optimizer that the program itself writes is judged by the parameters after the step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch

RATE = 0.01
ONCE = (0.0, True, 1)
LAST = (*ONCE, True)
State = dict[str, Any]


def momentum(p: torch.Tensor, state: State, rate: float, share: float) -> None:
    speed = state.setdefault("speed", torch.zeros_like(p))
    speed.mul_(share).add_(p.grad)
    p.sub_(rate * speed)  # momentum


def adam(p: torch.Tensor, state: State, rate: float, share: float) -> None:
    mean, square = (state.setdefault(name, torch.zeros_like(p)) for name in ("mean", "square"))
    state["step"] = state.get("step", 0) + 1
    p.mul_(1 - RATE * 0.1)
    mean.mul_(share).add_(p.grad, alpha=1 - share)
    square.mul_(0.99).add_((1 - 0.99) * p.grad * p.grad)
    root = (square / (1 - 0.99 ** state["step"])).sqrt() + 1e-8
    p.copy_(p - rate * (mean / (1 - share ** state["step"])) / root)  # adam


def rmsprop(p: torch.Tensor, state: State, rate: float, share: float) -> None:
    square = state.setdefault("square", torch.zeros_like(p))
    square.lerp_(p.grad.square(), 1 - share)
    p.data -= rate * p.grad / (square.sqrt() + 1e-8)  # rmsprop


def twice(p: torch.Tensor, state: State, rate: float, share: float) -> None:
    speed = state.setdefault("speed", torch.zeros_like(p))
    speed.mul_(share).add_(p.grad * 2)  # momentum
    p.sub_(rate * speed)


def added(p: torch.Tensor, state: State, rate: float, share: float) -> None:
    speed = state.setdefault("speed", torch.zeros_like(p))
    speed.mul_(share).add_(p.grad)
    p.add_(rate * speed)  # momentum


OWN: dict[str, tuple[Callable[..., None], float, Callable[[Any], torch.optim.Optimizer]]] = {
    "momentum": (momentum, 0.9, lambda p: torch.optim.SGD(p, RATE, momentum=0.9)),
    "adam": (adam, 0.9, lambda p: torch.optim.AdamW(p, RATE, (0.9, 0.99), weight_decay=0.1)),
    "rmsprop": (rmsprop, 0.99, lambda p: torch.optim.RMSprop(p, RATE)),
}
WRONG = {name: (update, 0.9, OWN["momentum"][2]) for name, update in (("twice", twice), ("added", added))}


class Plain:
    """An optimizer that no framework knows."""

    def __init__(self, parameters: Any, update: Callable[..., None], rate: float, share: float) -> None:
        self.parameters, self.given = list(parameters), (update, rate, share)
        self.states: list[State] = [{} for _ in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        update, rate, share = self.given
        for p, state in zip(self.parameters, self.states, strict=True):
            if p.grad is not None:
                update(p, state, rate, share)


class Own(torch.optim.Optimizer):
    """An optimizer of the program, written for the framework."""

    def __init__(self, parameters: Any, update: Callable[..., None], rate: float, share: float) -> None:
        super().__init__(parameters, {"lr": RATE})
        self.update, self.rate, self.share = update, rate, share

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for p in self.param_groups[0]["params"]:
            self.update(p, self.state[p], self.rate, self.share)


def record(
    folder: Path,
    name: str,
    written: str,
    rate: float = RATE,
    share: float = 0.0,
    clip: bool = True,
    steps: int = 3,
    used: bool = False,
) -> None:
    """Train a small network.

    Args:
        written: who wrote the optimizer: the framework, or the program in which way.
        used: whether the step goes on with the parameters after the update.
    """
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    update, usual, framework = {**OWN, **WRONG}[name]
    kind = {"plain": Plain, "own": Own}.get(written)
    optimizer: Any = (
        kind(model.parameters(), update, rate, share or usual) if kind is not None else framework(model.parameters())
    )
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for step in range(steps):
        x = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
        debugger.start(model)
        model.zero_grad()
        model(x).square().mean().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()  # update
        if used:
            torch.nn.functional.mse_loss(model[0](x), torch.zeros(6, 16)).backward()
        debugger.stop()
        debugger.step()
    forget()


def compared(pair: list[Path], turned: bool = False) -> CompareSummary:
    return msprobe.compare(*(reversed(pair) if turned else pair)).summary


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("written", ["own", "plain"])
@pytest.mark.parametrize("name", OWN)
def test_another_implementation_of_an_optimizer_is_no_difference(
    recordings: Recordings, name: str, written: str
) -> None:
    pair = [recordings(record, name, written), recordings(record, name, "framework")]
    for turned in (False, True):
        summary = compared(pair, turned)
        assert summary.verdict == "same", summary.first_divergence


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("fault", [(1.1 * RATE,), (RATE, 0.8)], ids=["rate", "share"])
@pytest.mark.parametrize("written", ["own", "plain"])
@pytest.mark.parametrize("name", OWN)
def test_a_wrong_number_in_an_own_optimizer_is_named(
    recordings: Recordings, name: str, written: str, fault: tuple[float, ...], turned: bool
) -> None:
    pair = [recordings(record, name, written, *fault), recordings(record, name, "framework")]
    found = compared(pair, turned).first_divergence
    assert found is not None and found.module == "optimizer"
    assert f"# {name}" in (found.golden_source if turned else found.source)
    assert "after the step" in found.reason


def test_a_wrong_rate_shows_in_the_step_that_has_it(recordings: Recordings) -> None:
    pair = [recordings(record, "adam", *given) for given in (("own", 1.1 * RATE, *ONCE), ("framework", RATE, *ONCE))]
    found = compared(pair).first_divergence
    assert found is not None and found.step == 0 and found.module == "optimizer"


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_that_one_side_clips_are_named_beside_an_own_optimizer(recordings: Recordings, turned: bool) -> None:
    pair = [recordings(record, "momentum", "own", RATE, 0.0, False), recordings(record, "momentum", "framework")]
    found = compared(pair, turned).first_divergence
    assert found is not None and "clip" in found.reason


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rate", [RATE, RATE / 20], ids=["clear", "near the tolerance"])
@pytest.mark.parametrize("written", ["own", "plain"])
@pytest.mark.parametrize("fault", [*WRONG, "momentum"])
def test_a_wrong_update_is_named_where_it_is_made_and_not_where_the_weight_is_used(
    recordings: Recordings, fault: str, written: str, rate: float, turned: bool
) -> None:
    wrong = (3 if fault == "momentum" else 1) * rate
    pair = [recordings(record, name, written, own, *LAST) for name, own in ((fault, wrong), ("momentum", rate))]
    found = compared(pair, turned).first_divergence
    assert found is not None and found.step == 0
    assert "# momentum" in found.source and "# momentum" in (found.golden_source or found.source)
