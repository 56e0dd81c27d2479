"""Weights that functions of the model train and that are no parameters of it."""

from __future__ import annotations

from msprobe.check.facts.step_facts import OutsideWeight, StepFacts, Update
from msprobe.check.rules.outside_weights import outside_model
from tests.check.made_facts import facts, parameter, run_of, tensor


def step(number: int, weight: float, *, held: float = 1.0, **more: object) -> StepFacts:
    update = Update(0, "SGD", (0.1,), ("fc.weight",), None, (), (), 0, 1, ())
    outside = OutsideWeight("Functional.linear.0.forward", 0, "", "linear", tensor(weight, 3, 3))
    parameters = {"fc.weight": parameter(held + number, held + number + 1.0, read=True, **more)}
    return facts(number, updates=[update], parameters=parameters, outside=[outside])


def test_a_weight_that_stays_while_parameters_move_is_found() -> None:
    (found,) = outside_model(run_of(step(0, 2.0), step(1, 2.0)))
    assert (found.call, found.certainty) == ("Functional.linear.0.forward", "likely")


def test_weights_that_move_and_runs_in_shards_are_let_pass() -> None:
    assert list(outside_model(run_of(step(0, 2.0), step(1, 2.5)))) == []
    assert list(outside_model(run_of(step(0, 2.0, sharded=True), step(1, 2.0, sharded=True)))) == []


def test_a_weight_that_may_be_made_of_a_parameter_is_let_pass() -> None:
    made = parameter(1.0, 1.0)._replace(used=tensor(1.0, 3, 3))  # of the same shape, and no function reads it
    steps = [step(number, 2.0) for number in range(2)]
    steps[0] = facts(0, updates=steps[0].updates, outside=steps[0].outside,
                     parameters={**steps[0].parameters, "fc.exact": made})  # fmt: skip
    assert list(outside_model(run_of(*steps))) == []
