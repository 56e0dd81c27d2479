"""Whether optimizers get gradients, and whether parameters move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from msprobe.check.rules.parameters import not_updated
from tests.check.made_facts import run_of, tensor, trained_step


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
    steps = (
        trained_step(number, "zero_grad", "backward", "optimizer_step", gets=1.0, rate=rate, dtype=dtype)
        for number, rate in enumerate(rates)
    )
    (found,) = not_updated(run_of(*steps))
    assert found.certainty == certainty


@pytest.mark.parametrize(("beside", "found"), [(1.0, 0), (1e-4, 1)], ids=["a bias that cancels", "a small gradient"])
def test_a_gradient_that_is_rounding_beside_that_of_the_weight(beside: float, found: int) -> None:
    """As that of a bias before a norm."""
    steps = []
    for number in range(3):
        step = trained_step(number, "zero_grad", "backward", "optimizer_step", gets=1e-7, rate=1e-9)
        (update,) = step.updates
        update = update._replace(gradients={**(update.gradients or {}), "fc.bias": tensor(beside, 4, 4)})
        steps.append(replace(step, updates=[update]))
    assert len(list(not_updated(run_of(*steps)))) == found
