"""Learning rates, clipping, and the number of steps."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.check.facts.step_facts import StepFacts, TrainingCall, Update
from msprobe.check.rules.schedule import clipping, ended_schedule, fewer_steps, rate_and_scheduler, scheduler_first
from tests.check.made_facts import facts, run_of, tensor


def scheduled(number: int, used: float, before: float, after: float, **more: Any) -> StepFacts:
    said = {"class": "StepLR", "rates_before": [before], "rates_after": [after], "optimizer": 0, **more}
    calls = [TrainingCall("optimizer_step", 1, {}, ()), TrainingCall("scheduler_step", 2, said, ())]
    update = Update(0, "SGD", (used,), ("a",), None, (), (), 0, 1, ())
    return facts(number, training=calls, updates=[update])


def test_a_rate_that_is_set_back() -> None:
    (found,) = rate_and_scheduler(run_of(scheduled(0, 0.1, 0.1, 0.05), scheduled(1, 0.1, 0.1, 0.05)))
    assert "sets it back" in found.reason
    assert list(rate_and_scheduler(run_of(scheduled(0, 0.1, 0.1, 0.05), scheduled(1, 0.05, 0.05, 0.02)))) == []


def test_a_schedule_that_waits_is_right() -> None:
    assert list(rate_and_scheduler(run_of(*(scheduled(number, 0.1, 0.1, 0.1) for number in range(4))))) == []


def test_a_rate_of_0_in_all_steps_is_found_and_a_warm_up_from_0_is_right() -> None:
    (found,) = rate_and_scheduler(run_of(*(scheduled(number, 0.0, 0.0, 0.0) for number in range(3))))
    assert "0 all along" in found.reason and not found.is_hint
    warm_up = (scheduled(number, number / 10, number / 10, (number + 1) / 10) for number in range(3))
    assert list(rate_and_scheduler(run_of(*warm_up))) == []


@pytest.mark.parametrize(
    ("rates", "certainty"),
    [
        ((0.2, 0.1, 0.0, 0.0), "likely"),
        ((0.2, 0.1, 0.0), "possible"),
        ((0.0, 0.1, 0.2), None),  # a warm-up
        ((0.1, 0.0, 0.1), None),  # a restart
        ((0.0, 0.0, 0.0), None),  # told otherwise
    ],
)
def test_a_schedule_that_ends_before_the_training(rates: tuple[float, ...], certainty: str | None) -> None:
    run = run_of(*(scheduled(number, rate, rate, rate) for number, rate in enumerate(rates)))
    assert [one.certainty for one in ended_schedule(run)] == ([] if certainty is None else [certainty])
    alone = run_of(*(facts(number, updates=one.updates) for number, one in enumerate(run.of.values())))
    assert list(ended_schedule(alone)) == []  # rates that are set by hand


def test_a_scheduler_that_steps_for_each_micro_batch() -> None:
    early = scheduled(0, 0.1, 0.1, 0.05, steps=1, optimizer_called=None)
    optimizer, scheduler = early.training
    (found,) = scheduler_first(run_of(facts(training=[scheduler, scheduler, optimizer], updates=early.updates)))
    assert "2 times for 1 steps of the optimizer" in found.reason


def test_the_first_step_of_a_scheduler() -> None:
    early = scheduled(0, 0.1, 0.1, 0.05, steps=1, optimizer_called=None)
    turned = facts(0, training=[early.training[1], early.training[0]], updates=early.updates)
    (found,) = scheduler_first(run_of(turned))
    assert found.rule == "scheduler_before_optimizer"
    later = early.training[1]._replace(facts={**early.training[1].facts, "steps": 7})
    assert list(scheduler_first(run_of(facts(training=[later, early.training[0]], updates=early.updates)))) == []
    assert list(scheduler_first(run_of(early))) == []


def test_clipping() -> None:
    def clipped(limit: float, *norms: float) -> list[Any]:
        calls = [TrainingCall("clip_grad", 1, {"function": "clip_grad_norm_", "limit": limit, "norm": norm}, ("x",))
                 for norm in norms]  # fmt: skip
        return list(clipping(run_of(*(facts(step, training=[call]) for step, call in enumerate(calls)))))

    assert [one.certainty for one in clipped(0.0, 1.0)] == ["certain"]
    assert [one.certainty for one in clipped(1e-3, 1.0, 2.0, 3.0)] == ["possible"]
    assert [one.certainty for one in clipped(1e6, 1.0, 2.0, 3.0)] == ["possible"]
    assert clipped(1.0, 0.5, 2.0, 3.0) == []


def test_fewer_steps_than_planned_is_a_hint() -> None:
    call = TrainingCall("scheduler_step", 1, {"class": "OneCycleLR", "planned_steps": 100, "steps": 40}, ())
    (found,) = fewer_steps(run_of(facts(ended="exit", training=[call])))
    assert found.is_hint
    assert list(fewer_steps(run_of(facts(ended="stop", training=[call])))) == []


@pytest.mark.parametrize(
    ("steps", "epochs", "end", "found"),
    [
        (6, 1.57, {}, True),
        (6, 2.0, {}, False),
        (5, 1.57, {}, False),
        (5, 1.57, {"ended": True, "stopped": False}, True),
        (5, 1.57, {"ended": True, "stopped": True}, False),
    ],
)
def test_a_training_that_ends_within_an_epoch(steps: int, epochs: float, end: dict[str, bool], found: bool) -> None:
    said = {"steps": steps, "planned_steps": 6, "epochs": epochs, "planned_epochs": 2.0, **end}
    run = run_of(facts(training=[TrainingCall("progress", 1, said, ())]))
    assert [one.is_hint for one in fewer_steps(run)] == [False] * found


def clipped(number: int, norm: float, gets: float, *kinds: str) -> StepFacts:
    said = {"function": "clip_grad_norm_", "limit": 0.5, "norm": norm}
    calls = [TrainingCall(kind, at, said if kind == "clip_grad" else {}, ()) for at, kind in enumerate(kinds)]
    update = Update(0, "SGD", (0.1,), ("a",), {"a": tensor(gets)}, (), (), 0, len(kinds), ())
    return facts(number, training=calls, updates=[update])


USUAL, EARLY = ("backward", "clip_grad", "optimizer_step"), ("clip_grad", "backward", "optimizer_step")


@pytest.mark.parametrize(
    ("norm", "gets", "kinds", "told"),
    [
        (0.0, 3.0, EARLY, "before the backward pass"),
        (0.0, 0.0, USUAL, None),
        (2000.0, 0.0001, USUAL, "divided after the clipping"),
        (2.0, 0.5, USUAL, None),
    ],
)
def test_a_clipping_that_comes_too_early(norm: float, gets: float, kinds: tuple[str, ...], told: str | None) -> None:
    found = list(clipping(run_of(*(clipped(number, norm, gets, *kinds) for number in range(2)))))
    assert [told in one.reason for one in found if told] == ([True] if told else [])
    assert [one.certainty for one in found] == (["likely"] if told else [])
