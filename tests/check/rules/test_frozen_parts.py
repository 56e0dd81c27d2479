"""What is frozen stays so and drops nothing, and its modes are no concern of the training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from msprobe.check.facts.step_facts import Parameter, StepFacts, Update
from msprobe.check.rules.frozen_parts import frozen_again, frozen_dropout
from msprobe.check.rules.training_modes import other_size, wrong_mode
from tests.check.made_facts import facts, module, run_of, tensor


def step(teacher: bool, **dropout: Any) -> StepFacts:
    """Return a step with a student that is trained and a teacher whose parameters need gradients or not."""
    parameters = {
        "student.weight": Parameter(True, "student", "Linear", tensor(1.0), tensor(1.1)),
        "teacher.0.weight": Parameter(teacher, "teacher.0", "Linear", tensor(1.0), tensor(1.0)),
    }
    call = module("teacher.1", 2.0, kind="Dropout", autograd="no_grad", given=tensor(3.0))._replace(**dropout)
    return facts(parameters=parameters, has_backward=True, gradients={"student.weight": [tensor(0.1)]}, modules=[call])


@pytest.mark.parametrize(
    ("teacher", "dropout", "told"),
    [
        (False, {}, 1),
        (True, {}, 0),  # it is trained as well
        (False, {"training": False}, 0),
        (False, {"returned": tensor(3.0)}, 0),  # a share of 0
        (False, {"autograd": "grad"}, 0),
    ],
)
def test_dropout_of_a_teacher(teacher: bool, dropout: dict[str, Any], told: int) -> None:
    assert [one.certainty for one in frozen_dropout(run_of(step(teacher, **dropout)))] == ["possible"] * told


@pytest.mark.parametrize(("kind", "told"), [("Adam", ["teacher.0.weight"]), ("SGD", [])])
def test_a_part_is_thawed_by_a_plan_where_another_optimizer_begins(kind: str, told: list[str]) -> None:
    def phase(number: int, thawed: bool, optimizer: str) -> StepFacts:
        update = Update(0, optimizer, (0.1,), ("student.weight",), None, (), (), 0, 1, ())
        return replace(step(thawed), step=number, updates=[update])

    found = frozen_again(run_of(phase(0, False, "Adam"), phase(1, True, kind)))
    assert [one.parameter for one in found] == told


@pytest.mark.parametrize(("teacher", "told"), [(True, 1), (False, 0)])
def test_a_frozen_part_may_stay_in_evaluation(teacher: bool, told: int) -> None:
    resting = step(teacher, training=False, autograd="grad")
    assert len(list(wrong_mode(run_of(resting)))) == told


@pytest.mark.parametrize(("trained", "given", "told"), [(2.0, 3.0, 0), (2e-4, 3.0, 1), (2e-4, 5.0, 0)])
def test_results_of_another_order_in_evaluation(trained: float, given: float, told: int) -> None:
    evaluated = module("norm", 2.0, training=False, given=tensor(3.0), name="first")
    calls = [evaluated, module("norm", trained, given=tensor(given), name="second")]
    found = list(other_size(run_of(facts(modules=calls))))
    assert [(one.rule, one.call) for one in found] == [("modes_disagree", "first")] * told
