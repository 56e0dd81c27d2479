"""The published ratio of two results, its thresholds, and the agreement with the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.numerics.published.perturbed_ratio import (
    SIGN_FLIP,
    agrees_with_cpu,
    is_consistent,
    ratio_of,
    threshold_of,
)

FLOATS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("dtype", "mode", "threshold"),
    [
        ("float16", "bit_noise", 1.002),
        ("bfloat16", "add_noise", 1.004),
        ("float32", "improve_precision", 1.0002),
        ("bfloat16", "no_change", 1.0),
    ],
)
def test_thresholds(dtype: str, mode: str, threshold: float) -> None:
    assert threshold_of(dtype, mode) == threshold


@pytest.mark.parametrize(
    ("own", "other", "ratio"),
    [
        ([1.0, 2.0], [1.0, 2.0], 1.0),
        ([1.0, 2.0], [1.0, 2.2], 1.1),
        ([1.0, 2.2], [1.0, 2.0], 1.1),
        ([1e-5], [2e-5], 1.0),  # both below sqrt(1e-8): sizes of 1e-4
        ([1.0], [-1.0], SIGN_FLIP),
        ([1e-5], [-1e-5], 1.0),
        ([np.inf], [np.inf], 1.0),
        ([1.0], [np.inf], np.inf),
    ],
)
def test_ratios(own: list[float], other: list[float], ratio: float) -> None:
    assert ratio_of(np.array(own), np.array(other), "float32") == pytest.approx(ratio)


def test_gradients_are_compared_from_a_thousandth_on() -> None:
    own, other = np.array([4e-4]), np.array([8e-4])
    assert ratio_of(own, other, "float32", backward=True) == 1.0
    assert ratio_of(own, other, "float32") == 2.0


@given(FLOATS)
def test_a_result_is_consistent_with_itself(values: list[float]) -> None:
    array = np.array([*values, np.nan])
    assert is_consistent(ratio_of(array, array, "bfloat16"), 1.0)


@given(FLOATS, st.floats(0.5, 2.0))
def test_the_ratio_does_not_know_which_side_is_which(values: list[float], factor: float) -> None:
    own = np.array(values)
    assert ratio_of(own, own * factor, "float32") == ratio_of(own * factor, own, "float32")


def test_a_nan_on_one_side_is_not_consistent() -> None:
    assert not is_consistent(ratio_of(np.array([1.0, np.nan]), np.array([1.0, 1.0]), "float32"), 1.002)


@pytest.mark.parametrize(
    ("own", "cpu", "agrees"),
    [
        ([0.5, 100.0], [0.5, 100.0], True),
        ([0.5 + 2.0**-13], [0.5], False),  # small ones by their difference: 2**-14
        ([100.0 * (1 + 2.0**-13)], [100.0], False),
        ([100.0 * (1 + 2.0**-15)], [100.0], True),
        ([1.0, 2.0], [np.nan, 2.0], True),
        ([np.nan], [1.0], False),
    ],
)
def test_agreement_with_the_cpu(own: list[float], cpu: list[float], agrees: bool) -> None:
    assert agrees_with_cpu(np.array(own), np.array(cpu), "float32") == agrees
