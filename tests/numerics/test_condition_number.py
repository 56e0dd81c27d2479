"""The condition of a result: what one round-off of its inputs does to it."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe.numerics.condition_number import WELL, condition_of

ROUNDOFF = 2.0**-8


def moved(values: np.ndarray, draw: int) -> np.ndarray:
    signs = np.random.default_rng(draw).choice((-1.0, 1.0), values.shape)
    return values * (1.0 + ROUNDOFF * signs)


@pytest.mark.parametrize(("mean", "ill"), [(0.0, False), (1.0, False), (100.0, True), (1e4, True)])
def test_a_small_difference_of_large_numbers_is_ill_conditioned(mean: float, ill: bool) -> None:
    left, right = mean + np.random.default_rng(0).standard_normal((2, 500))
    draws = [moved(left, 2 * draw) - moved(right, 2 * draw + 1) for draw in range(3)]
    found = condition_of(left - right, draws, ROUNDOFF)
    assert found.is_ill == ill
    expected = np.sqrt(1.0 + mean**2)  # sqrt(|a|^2 + |b|^2) / |a - b|
    assert expected / 2 < found.number < expected * 2
    assert found.error == pytest.approx(found.number * ROUNDOFF)


@pytest.mark.parametrize(("largest", "ill"), [(1.0, False), (10.0, False), (40.0, True)])
def test_the_condition_of_exp_is_its_argument(largest: float, ill: bool) -> None:
    values = np.linspace(-1.0, 1.0, 400) * largest
    found = condition_of(np.exp(values), [np.exp(moved(values, draw)) for draw in range(3)], ROUNDOFF)
    assert found.is_ill == ill
    assert largest / 3 < found.number < largest * 2


def test_an_exact_zero_has_no_digits_to_lose() -> None:
    zero, noise = np.zeros(8), np.full(8, 1e-17)
    assert condition_of(zero, [np.full(8, 0.1)], ROUNDOFF) == condition_of(zero, [], ROUNDOFF)
    assert not condition_of(noise, [np.full(8, 0.1)], ROUNDOFF).is_ill


def test_what_has_no_condition() -> None:
    assert condition_of(np.arange(3), [np.arange(3)], ROUNDOFF) is WELL
    assert condition_of(np.ones(3), [np.ones(3) * 2], 0.0) is WELL
    assert condition_of(np.ones(3), [np.ones(4)], ROUNDOFF).error == 0.0
    infinite = np.array([1.0, np.inf, np.nan])
    assert condition_of(infinite, [infinite], ROUNDOFF).error == 0.0
    assert not WELL.is_ill
