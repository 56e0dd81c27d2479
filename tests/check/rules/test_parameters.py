"""Whether optimizers get gradients, and whether parameters move."""

from __future__ import annotations

import pytest

from msprobe.check.facts.step_facts import StepFacts, TrainingCall, Update
from msprobe.check.rules.parameters import cleared_too_early, not_updated
from tests.check.made_facts import facts, parameter, run_of, tensor


def step(number: int, *kinds: str, gets: float | None, rate: float = 0.1, dtype: str = "float32") -> StepFacts:
    gradients = None if gets is None else {"fc.weight": tensor(gets, 4, 4)}
    update = Update(0, "Adam", (rate,), ("fc.weight",), gradients, (), (), 0, 9, (), {"fc.weight": rate})
    same = parameter(8.0, 8.0)
    same = same._replace(used=tensor(8.0, 4, 4, dtype=dtype), left=tensor(8.0, 4, 4, dtype=dtype))
    calls = [TrainingCall(kind, 9, {}, ()) for kind in kinds]
    return facts(
        number, training=calls, updates=[update], has_backward=True, parameters={"fc.weight": same},
        gradients={"fc.weight": [tensor(1.0, 4, 4)]},
    )  # fmt: skip


LATE, EARLY = ("backward", "zero_grad", "optimizer_step"), ("zero_grad", "backward", "optimizer_step")


@pytest.mark.parametrize(
    ("kinds", "gets", "told"), [(LATE, None, 1), (LATE, 0.0, 1), (LATE, 1.0, 0), (EARLY, None, 0), (EARLY, 1.0, 0)]
)
def test_gradients_that_are_cleared_before_the_step(kinds: tuple[str, ...], gets: float | None, told: int) -> None:
    assert len(list(cleared_too_early(run_of(*(step(number, *kinds, gets=gets) for number in range(2)))))) == told


@pytest.mark.parametrize(
    ("rates", "dtype", "certainty"),
    [
        ((1e-5, 1e-5, 1e-5), "bfloat16", "likely"),
        ((1e-7, 2e-7, 3e-7), "bfloat16", "possible"),  # a warm-up
        ((1e-9, 1e-9, 1e-9), "float32", "possible"),
        ((0.1, 0.1, 0.1), "bfloat16", "certain"),
    ],
)
def test_updates_that_are_lost_in_rounding(rates: tuple[float, ...], dtype: str, certainty: str) -> None:
    steps = (step(number, *EARLY, gets=1.0, rate=rate, dtype=dtype) for number, rate in enumerate(rates))
    (found,) = not_updated(run_of(*steps))
    assert found.certainty == certainty
