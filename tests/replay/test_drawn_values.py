"""Drawn values have the statistics that a dump recorded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe.core.backend.replaying import CannotReplayError
from msprobe.replay.drawn_values import CLOSE, draw
from msprobe.replay.recorded_arguments import RecordedTensor

SHAPES = st.lists(st.integers(1, 12), max_size=3).map(tuple)


def recorded(values: NDArray[Any], dtype: str = "float32") -> RecordedTensor:
    """Return what a dump says of some values."""
    return RecordedTensor(
        dtype,
        values.shape,
        float(values.max()),
        float(values.min()),
        float(values.mean()),
        float(np.linalg.norm(values.ravel())),
    )


def generator() -> np.random.Generator:
    return np.random.default_rng(5)


def values_of(kind: str, size: int = 3000) -> NDArray[np.float64]:
    random = np.random.default_rng(11)
    normal = random.standard_normal(size)
    return {
        "normal": normal,
        "uniform": random.random(size),
        "half zeros": np.maximum(normal, 0.0),
        "an outlier": np.append(1e-3 * normal, 1e3),
        "shares": np.exp(3.0 * normal) / np.exp(3.0 * normal).sum(),
        "heavy tails": random.standard_cauchy(size),
        "two values": np.where(normal > 0.5, 1.0, 0.0),
        "mostly zero": np.where(random.random(size) < 0.01, 5.0, 0.0),
        "tiny": 1e-9 * normal,
        "one sign": -np.exp(4.0 * normal),
        "one value": np.full(size, 0.25),
    }[kind]


KINDS = (
    "normal",
    "uniform",
    "half zeros",
    "an outlier",
    "shares",
    "heavy tails",
    "two values",
    "mostly zero",
    "tiny",
    "one sign",
    "one value",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", (3, 40, 3000))
def test_the_statistics_are_those_recorded(kind: str, size: int) -> None:
    wanted = values_of(kind, size)
    drawn = draw(recorded(wanted), generator())
    own, scale = drawn.values.astype(np.float64), math.sqrt(float(np.mean(np.square(wanted))))
    assert drawn.fits
    assert (own.max(), own.min()) == pytest.approx((wanted.max(), wanted.min()), rel=1e-6, abs=1e-12 * scale)
    assert abs(own.mean() - wanted.mean()) <= 1.01 * CLOSE * scale
    assert np.linalg.norm(own) == pytest.approx(np.linalg.norm(wanted), rel=1.01 * CLOSE)


@given(SHAPES, st.integers(0, 2**32))
def test_shape_and_dtype_are_those_recorded(shape: tuple[int, ...], seed: int) -> None:
    wanted = np.random.default_rng(seed).standard_normal(shape)
    drawn = draw(recorded(wanted, "bfloat16"), generator())
    assert (drawn.values.shape, drawn.values.dtype.name) == (shape, "float32")


def test_statistics_that_no_tensor_has_are_said_not_to_fit() -> None:
    assert not draw(RecordedTensor("float32", (100,), 1.0, 0.0, 0.9, 0.1), generator()).fits


@given(st.integers(-1000, 1000), st.integers(0, 1000), st.integers(1, 50))
def test_whole_numbers_stay_between_their_extremes_and_reach_them(low: int, reach: int, size: int) -> None:
    high = low + reach if size > 1 else low
    values = draw(RecordedTensor("int64", (size,), high, low, None, None), generator()).values
    assert (values.dtype.name, values.min(), values.max()) == ("int64", low, high)


@pytest.mark.parametrize(("largest", "smallest"), ((1.0, 1.0), (0.0, 0.0), (1.0, 0.0)))
def test_truth_values(largest: float, smallest: float) -> None:
    values = draw(RecordedTensor("bool", (9,), largest, smallest), generator()).values
    assert (values.dtype.name, values.max(), values.min()) == ("bool", bool(largest), bool(smallest))


@pytest.mark.parametrize("odd", (math.nan, math.inf, -math.inf))
def test_what_is_not_finite_is_there(odd: float) -> None:
    values = draw(RecordedTensor("float32", (50,), odd, -1.0 if odd > 0 else odd, None, None), generator()).values
    assert sum(not math.isfinite(value) for value in values) in (1, 2)
    assert any(value == odd or (math.isnan(odd) and math.isnan(value)) for value in values)


def test_nothing_is_drawn_of_an_empty_tensor() -> None:
    assert draw(RecordedTensor("float32", (0, 3)), generator()).values.shape == (0, 3)


def test_without_extremes_nothing_can_be_drawn() -> None:
    with pytest.raises(CannotReplayError, match="neither the values nor Max and Min"):
        draw(RecordedTensor("float32", (3,)), generator())
