"""The published metrics of a result, by hand and by their properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.tensors.dtypes import DType, find_dtype
from msprobe.numerics.published.metrics import PublishedMetrics, cosine, measure

FLOATS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30)


def dtype(name: str) -> DType:
    found = find_dtype(name)
    assert found is not None
    return found


def of(result: list[float], golden: list[float], name: str = "float32") -> PublishedMetrics:
    return measure(np.array(result), np.array(golden), dtype(name))


@given(FLOATS)
def test_what_is_equal_has_no_error(values: list[float]) -> None:
    found = of(values, values)
    errors = (found.max_absolute_error, found.rmse, found.max_relative_error, found.nonfinite_error_rate)
    assert errors == (0.0, 0.0, 0.0, 0.0)
    assert (found.share_100, found.share_1000, found.share_10000) == (1.0, 1.0, 1.0)
    assert (found.max_ulp_error, found.binary_error_rate) == (0.0, 0.0)
    assert found.cosine == pytest.approx(1.0)


def test_shares_count_small_relative_errors() -> None:
    found = of([1.0, 1.00005, 1.0005, 1.005, 1.05], [1.0] * 5)
    assert (found.share_10000, found.share_1000, found.share_100) == (0.4, 0.6, 0.8)
    assert found.max_relative_error == pytest.approx(0.05)
    assert found.error_balance == pytest.approx(0.8)


def test_small_elements_are_counted_apart() -> None:
    found = of([2.0**-12 + 2.0**-15, 1.0], [2.0**-12, 1.0], "float16")
    assert (found.small_value_error_share, found.absolute_error_rate, found.max_relative_error) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(("name", "bits"), [("float32", 23), ("float16", 10), ("bfloat16", 7)])
@pytest.mark.parametrize("golden", [1.0, 1.5, 6.0, 0.3])
def test_an_error_of_one_place_is_one_ulp(name: str, bits: int, golden: float) -> None:
    place = 2.0 ** (math.floor(math.log2(golden)) - bits)
    assert of([golden + place], [golden], name).max_ulp_error == pytest.approx(1.0)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_only_one_side_has_is_counted(odd: float) -> None:
    assert of([odd, 1.0], [1.0, 1.0]).nonfinite_error_rate == 0.5
    assert of([odd, 1.0], [odd, 1.0]).nonfinite_error_rate == 0.0


def test_whole_numbers_are_subtracted_exactly() -> None:
    large = np.array([2**63 - 1, 5])
    found = measure(large, np.array([2**63 - 2, 5]), dtype("int64"))
    assert (found.max_absolute_error, found.binary_error_rate, found.cosine) == (1.0, 0.5, None)


@pytest.mark.parametrize(
    ("left", "right", "value"),
    [([0.0], [0.0], 1.0), ([0.0], [1.0], 0.0), ([1e300, 0.0], [1e300, 0.0], 1.0), ([1.0, 0.0], [0.0, 1.0], 0.0)],
)
def test_cosine(left: list[float], right: list[float], value: float) -> None:
    assert cosine(np.array(left), np.array(right)) == pytest.approx(value)


def test_an_empty_result_has_no_error() -> None:
    assert of([], []) == PublishedMetrics(binary_error_rate=0.0)
