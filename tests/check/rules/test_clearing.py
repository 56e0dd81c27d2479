"""Gradients that are cleared between their backward pass and the step."""

from __future__ import annotations

import pytest

from msprobe.check.rules.clearing import cleared_too_early
from tests.check.made_facts import run_of, trained_step

LATE, EARLY = ("backward", "zero_grad", "optimizer_step"), ("zero_grad", "backward", "optimizer_step")


@pytest.mark.parametrize(
    ("kinds", "gets", "told"), [(LATE, None, 1), (LATE, 0.0, 1), (LATE, 1.0, 0), (EARLY, None, 0), (EARLY, 1.0, 0)]
)
def test_gradients_that_are_cleared_before_the_step(kinds: tuple[str, ...], gets: float | None, told: int) -> None:
    assert (
        len(list(cleared_too_early(run_of(*(trained_step(number, *kinds, gets=gets) for number in range(2)))))) == told
    )
