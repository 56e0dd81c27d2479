"""A result against the same call in a higher precision: rounding passes, whatever is more does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import DType, find_dtype
from msprobe.numerics.conditioned import Conditioned, Movement, by_condition, by_rounding
from msprobe.numerics.kinds import Level

Array = NDArray[Any]


def dtype_of(name: str) -> DType:
    found = find_dtype(name)
    assert found is not None
    return found


FLOAT32, FLOAT16, BFLOAT16, INT64 = (dtype_of(name) for name in ("float32", "float16", "bfloat16", "int64"))


def rounded(values: Array, dtype: DType) -> Array:
    """Return the nearest numbers of a dtype, as float64."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**dtype.digits), exponent - dtype.digits)


def moved_products(left: Array, right: Array, dtype: DType) -> list[Array]:
    """Return products of matrices whose elements are moved by one round-off."""
    generator = np.random.default_rng(7)
    signs = [generator.choice((-1.0, 1.0), size=each.shape) for _ in range(3) for each in (left, right)]
    return [
        (left * (1 + dtype.unit_roundoff * one)) @ (right * (1 + dtype.unit_roundoff * other))
        for one, other in zip(signs[::2], signs[1::2], strict=True)
    ]


def judged_product(dtype: DType, change: Any = lambda product: product) -> Conditioned:
    """Judge a product of matrices of a dtype, after a change."""
    generator = np.random.default_rng(1)
    left, right = (rounded(generator.standard_normal((64, 64)), dtype) for _ in range(2))
    golden = left @ right
    sums = (left.astype(np.float32) @ right.astype(np.float32)).astype(np.float64)
    return by_condition(change(rounded(sums, dtype)), golden, Movement(moved_products(left, right, dtype)), dtype)


@pytest.mark.parametrize("dtype", (FLOAT32, FLOAT16, BFLOAT16), ids=lambda dtype: dtype.name)
def test_a_product_that_is_rounded_passes(dtype: DType) -> None:
    answer = judged_product(dtype)
    assert answer.level is Level.PASS
    assert answer.condition > 0


def spoiled(values: Array, place: tuple[int, int], value: float) -> Array:
    changed = values.copy()
    changed[place] = value
    return changed


FAULTS = {
    "scaled": lambda product: product * 1.05,
    "one element": lambda product: spoiled(product, (3, 5), product[3, 5] + 1.0),
    "sign": lambda product: -product,
    "NaN": lambda product: spoiled(product, (0, 0), np.nan),
    "infinity": lambda product: spoiled(product, (9, 9), np.inf),
    "shifted": lambda product: np.roll(product, 1, axis=0),
    "last element dropped": lambda product: spoiled(product, (63, 63), 0.0),
    "coarse": lambda product: np.round(product),
}


@pytest.mark.parametrize("dtype", (FLOAT32, FLOAT16, BFLOAT16), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_product_does_not(fault: str, dtype: DType) -> None:
    assert judged_product(dtype, FAULTS[fault]).level is Level.ERROR


@pytest.mark.parametrize("size", (1e-30, 1e-5, 1.0, 1e20))
def test_the_size_of_the_numbers_does_not_matter(size: float) -> None:
    golden = size * np.random.default_rng(2).standard_normal(1000)
    assert by_rounding(rounded(golden, FLOAT32), golden, FLOAT32).passes
    assert by_rounding(golden * 1.05, golden, FLOAT32).level is Level.ERROR


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=20), st.sampled_from((FLOAT32, FLOAT16, BFLOAT16)))
def test_one_rounding_always_passes(numbers: list[float], dtype: DType) -> None:
    golden = np.array(numbers)
    assert by_rounding(rounded(golden, dtype), golden, dtype).passes


@pytest.mark.parametrize("factor", (1.01, 0.99))
def test_a_factor_that_shows_in_no_single_element_is_an_error(factor: float) -> None:
    golden = np.random.default_rng(6).standard_normal(1000)
    assert by_rounding(rounded(golden, BFLOAT16), golden, BFLOAT16).passes
    assert by_rounding(rounded(golden * factor, BFLOAT16), golden, BFLOAT16).level is Level.ERROR


def test_one_nan_in_many_right_elements_is_an_error() -> None:
    golden = np.linspace(-1, 1, 10_000)
    result = golden.copy()
    result[17] = np.nan
    answer = by_rounding(result, golden, FLOAT32)
    assert (answer.level, answer.worst) == (Level.ERROR, 17)


def test_nan_and_infinity_on_both_sides_are_equal() -> None:
    values = np.array([1.0, np.nan, np.inf, -np.inf])
    assert by_rounding(values, values.copy(), FLOAT32).passes
    assert by_rounding(-values, values, FLOAT32).level is Level.ERROR


def test_what_is_too_large_for_the_dtype_is_an_infinity() -> None:
    assert by_rounding(np.array([np.inf, 1.0]), np.array([1e6, 1.0]), FLOAT16).passes
    assert by_rounding(np.array([-np.inf, 1.0]), np.array([1e6, 1.0]), FLOAT16).level is Level.ERROR
    assert by_rounding(np.array([np.inf, 1.0]), np.array([6e4, 1.0]), FLOAT16).level is Level.ERROR


def test_digits_lost_beside_larger_elements_are_a_warning() -> None:
    golden = np.array([1.0, 1e-7])
    answer = by_rounding(np.array([1.0, 1.9e-7]), golden, FLOAT32)
    assert answer.level is Level.WARNING


def test_an_exponential_is_judged_element_by_element() -> None:
    """Small results beside large ones do not hide behind them where elements have nothing to do with one another."""
    values = np.random.default_rng(3).uniform(-20, 20, 4000)
    golden = np.exp(values)
    signs = np.random.default_rng(4).choice((-1.0, 1.0), size=(3, 4000)) * FLOAT32.unit_roundoff
    moved = [np.exp(values * (1 + each)) for each in signs]
    half = np.exp(np.where(np.arange(4000) % 2, values, values * (1 + signs[0])))
    assert by_condition(rounded(golden, FLOAT32), golden, Movement(moved, half), FLOAT32).passes
    wrong = np.where(golden < 1e-6, golden * 1.01, golden)
    assert not by_condition(wrong, golden, Movement(moved, half), FLOAT32).passes


def test_whole_numbers_are_equal_except_where_rounding_changes_them() -> None:
    golden = np.array([1, 2, 3])
    assert by_condition(np.array([1, 2, 3]), golden, Movement([golden]), INT64).passes
    assert by_condition(np.array([1, 2, 4]), golden, Movement([golden]), INT64).level is Level.ERROR
    assert by_condition(np.array([1, 2, 4]), golden, Movement([np.array([1, 2, 4])]), INT64).passes


def test_another_shape_is_an_error() -> None:
    assert by_rounding(np.zeros(3), np.zeros((3, 1)), FLOAT32).level is Level.ERROR


def test_nothing_is_equal_to_nothing() -> None:
    assert by_rounding(np.zeros((0, 3)), np.zeros((0, 3)), FLOAT32).passes


def test_the_smallest_number_there_is_has_no_condition() -> None:
    tiny = np.array([5e-324])
    assert by_condition(tiny, tiny, Movement([tiny]), FLOAT32).passes


def test_no_factor_is_seen_where_the_inputs_decide_everything() -> None:
    golden = np.random.default_rng(0).standard_normal(400) * 1e-16  # an exact 0, by the rounding of float64
    moved = [np.random.default_rng(draw).standard_normal(400) * 1e-7 for draw in (1, 2, 3)]
    result = golden * 1e9
    assert by_condition(result, golden, Movement(moved), FLOAT32).passes


def test_a_factor_that_inputs_may_carry_is_no_error() -> None:
    golden = np.random.default_rng(0).standard_normal((40, 64))
    moved = [
        golden * (1.0 + 0.02 * np.random.default_rng(draw).standard_normal(golden.shape)) for draw in (1, 2, 3)
    ]  # 2 % of each element
    assert by_condition(golden * 1.015, golden, Movement(moved), FLOAT32).passes
    assert not by_condition(golden * 1.5, golden, Movement(moved), FLOAT32).passes
