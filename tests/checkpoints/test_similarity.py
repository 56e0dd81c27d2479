"""l2 and cosine of two stored tensors against their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from msprobe.checkpoints.similarity import Similarity, similarity
from msprobe.core.store.tensor_reader import LazyTensor

FINITE = st.floats(-1e6, 1e6, width=32)


def stored(values: Any, dtype: str | None = None) -> LazyTensor:
    array = np.asarray(values)
    return LazyTensor(array.shape, dtype or array.dtype.name, lambda: array)


def compare(first: Any, second: Any, dtype: str | None = None) -> Similarity:
    return similarity(stored(first, dtype), stored(second, dtype))


@given(hnp.arrays(np.float32, (2, 37), elements=FINITE))
def test_as_defined(pair: np.ndarray) -> None:
    first, second = pair.astype(np.float64)
    found = compare(*pair)
    assert found.problem == ""
    assert found.l2 == pytest.approx(float(np.linalg.norm(first - second)), rel=1e-12)
    norms = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    if norms:
        assert found.cos == pytest.approx(float(first @ second) / norms, abs=1e-12)
        assert -1.0 <= (found.cos or 0.0) <= 1.0


@given(hnp.arrays(st.sampled_from([np.float16, np.float32, np.float64]), 50, elements=st.floats(-100, 100, width=16)))
def test_a_tensor_is_exactly_like_itself(values: np.ndarray) -> None:
    assert compare(values, values.copy()) == Similarity(0.0, 1.0, steps=0)


@given(hnp.arrays(np.float64, 20, elements=FINITE), st.floats(1e-3, 1e3))
def test_a_multiple_points_the_same_way(values: np.ndarray, factor: float) -> None:
    found = compare(values, values * factor)
    if values.any():
        assert found.cos is not None and 1.0 - 1e-9 < found.cos <= 1.0


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param([0.0, 0.0], [0.0, -0.0], Similarity(0.0, 1.0), id="both-zero"),
        pytest.param([0.0, 0.0], [3.0, 4.0], Similarity(5.0, None), id="one-zero"),
        pytest.param([1.0], [-1.0], Similarity(2.0, -1.0), id="opposite"),
        pytest.param(np.zeros((0, 3)), np.zeros((0, 3)), Similarity(0.0, 1.0), id="empty"),
        pytest.param([1.0, 2.0], [[1.0, 2.0]], Similarity(), id="another-shape"),
        pytest.param(np.float32(3.0), np.float32(3.0), Similarity(0.0, 1.0), id="a-scalar"),
        pytest.param([True, False], [True, True], Similarity(1.0, math.sqrt(0.5)), id="bool"),
        pytest.param([1 + 1j], [1 - 1j], Similarity(2.0, 0.0), id="complex"),
        pytest.param([1e200, 0.0], [0.0, 1e200], Similarity(math.sqrt(2) * 1e200, 0.0), id="squares-overflow"),
        pytest.param([1e-200, 0.0], [0.0, 1e-200], Similarity(math.sqrt(2) * 1e-200, 0.0), id="squares-vanish"),
    ],
)
def test_special_values(first: Any, second: Any, expected: Similarity) -> None:
    found = compare(first, second)
    assert found.l2 == (None if expected.l2 is None else pytest.approx(expected.l2, rel=1e-12))
    assert found.cos == (None if expected.cos is None else pytest.approx(expected.cos, abs=1e-12))


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        pytest.param(np.array([2**53]), np.array([2**53 + 1]), 1.0, id="integers-beyond-float64"),
        pytest.param(np.array([2**64 - 1], np.uint64), np.array([2**64 - 3], np.uint64), 2.0, id="unsigned"),
        pytest.param(np.array([1.0, 1e-200]), np.array([1.0, 2e-200]), 1e-200, id="a-difference-without-a-square"),
    ],
)
def test_the_smallest_difference_is_one(first: Any, second: Any, distance: float) -> None:
    assert compare(first, second).l2 == pytest.approx(distance)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf], ids=["nan", "inf", "minus-inf"])
@pytest.mark.parametrize("both", [True, False], ids=["both", "one"])
def test_what_is_not_finite_is_a_problem_also_on_both_sides(odd: float, both: bool) -> None:
    found = compare([1.0, odd], [1.0, odd if both else 1.0])
    assert (found.l2, found.cos) == (None, None)
    assert found.problem == f"NaN or infinite: 1 elements of the first, {int(both)} of the second"


def test_bits_of_types_that_numpy_lacks() -> None:
    one, two = 0x3F80, 0x4000  # bfloat16
    found = compare(np.array([one, two], np.uint16), np.array([one, one], np.uint16), "bfloat16")
    assert found.l2 == 1.0
    eight = similarity(stored(np.array([0x38], np.uint8), "float8_e4m3fn"), stored(np.array([1.0], np.float32)))
    assert eight == Similarity(0.0, 1.0, steps=0)


def test_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    first, second = generator.standard_normal((2, 1000)).astype(np.float32)
    whole = compare(first, second)
    monkeypatch.setattr("msprobe.checkpoints.similarity._CHUNK_BYTES", 28)
    parts = compare(first, second)
    assert parts.l2 == pytest.approx(whole.l2, rel=1e-12) and parts.cos == pytest.approx(whole.cos, rel=1e-12)


@pytest.mark.parametrize("transform", [np.transpose, np.flipud], ids=["transposed", "flipped"])
def test_any_memory_layout(transform: Callable[[Any], Any]) -> None:
    values = np.arange(12.0).reshape(3, 4)
    assert compare(transform(values), np.ascontiguousarray(transform(values))) == Similarity(0.0, 1.0, steps=0)


def test_a_type_without_a_meaning_is_a_problem() -> None:
    assert "float4" in compare([1.0], [1.0], "float4").problem
