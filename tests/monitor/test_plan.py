"""Which steps, modules and parameters a plan holds."""

from __future__ import annotations

import pytest

from msprobe.monitor.plan import MonitorPlan, StepWindow
from msprobe.monitor.settings.first_version import FirstVersion, plan_of


@pytest.mark.parametrize(
    ("window", "held"),
    [
        (StepWindow(), list(range(8))),
        (StepWindow(start=3), [3, 4, 5, 6, 7]),
        (StepWindow(start=1, interval=3), [1, 4, 7]),
        (StepWindow(start=1, interval=3, times=2), [1, 4]),
        (StepWindow(stop=2), [0, 1]),
        (StepWindow(times=0), []),
    ],
)
def test_steps_of_a_window(window: StepWindow, held: list[int]) -> None:
    assert [step for step in range(8) if window.holds(step)] == held
    last = max(held, default=-1)
    ends = window.times < 100 or window.stop is not None
    assert [step for step in range(8) if window.ended(step)] == (
        [step for step in range(8) if step > last] if ends else []
    )


def test_no_targets_are_the_whole_model() -> None:
    plan = MonitorPlan({})
    assert plan.module_values("a.b") == frozenset()
    assert plan.holds_parameter("a.b.weight")


def test_targets_name_modules_and_their_parameters() -> None:
    plan = MonitorPlan({}, targets={"a": frozenset({"input"})}, all_modules=False)
    assert plan.module_values("a") == {"input"}
    assert plan.module_values("a.b") is None
    held = {name: plan.holds_parameter(name) for name in ("a.weight", "a.b.weight", "ab.weight", "b.a.weight")}
    assert held == {"a.weight": True, "a.b.weight": True, "ab.weight": True, "b.a.weight": False}


@pytest.mark.parametrize(
    ("target", "held"), [("0:0", ["0.weight"]), ("0", ["0.weight", "10.weight"]), ("1", ["10.weight"])]
)
def test_targets_may_begin_with_a_stage(target: str, held: list[str]) -> None:
    plan = plan_of(FirstVersion(targets={target: {}}), 1)
    assert [name for name in ("0.weight", "10.weight") if plan.holds_parameter(name)] == held


def test_targets_may_be_parts_of_names() -> None:
    plan = MonitorPlan({}, targets={"attn": frozenset()}, match_parts=True)
    assert plan.module_values("layers.0.attn.q") == frozenset()
    assert plan.module_values("layers.0.mlp") is None
    assert plan.holds_parameter("layers.0.attn.q.weight") and plan.holds_parameter("layers.0.mlp.weight")
