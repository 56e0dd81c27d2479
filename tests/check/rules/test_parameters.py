"""Whether optimizers get gradients, and whether parameters move."""

from __future__ import annotations

import pytest

from msprobe.check.rules.parameters import not_updated
from tests.check.made_facts import run_of, trained_step


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
