"""From measured values to the statistics of a record."""

from __future__ import annotations

import math

import pytest

from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.statistics import (
    STATISTIC_NAMES,
    STATISTICS,
    Precision,
    RawStats,
    TensorStats,
    finish,
    repeated,
    round_statistic,
    set_statistics,
)


def finished(name: str, raw: RawStats, precision: Precision = "low") -> TensorStats:
    dtype = find_dtype(name)
    assert dtype is not None
    return finish(raw, dtype, precision)


def rounded(name: str, value: float, precision: Precision = "low") -> float:
    dtype = find_dtype(name)
    assert dtype is not None
    return round_statistic(value, dtype, precision)


def test_bool_has_extremes_of_its_own_type_and_nothing_else() -> None:
    stats = finished("bool", RawStats(1.0, 0.0, 0.5, 1.0))
    assert stats == TensorStats(True, False, None, None)
    assert type(stats.max) is bool


def test_integers_stay_exact_integers() -> None:
    stats = finished("int64", RawStats(2**53 + 1, -(2**62), -1.5, 2.5))
    assert (stats.max, stats.min, stats.mean, stats.norm) == (9007199254740993, -4611686018427387904, -1.5, 2.5)
    assert type(stats.max) is int


@pytest.mark.parametrize("raw", [RawStats(math.nan, 1.0, 1.0, 1.0), RawStats(2.0, 1.0, math.nan, math.nan)])
def test_one_nan_makes_all_four_nan(raw: RawStats) -> None:
    stats = finished("float32", raw)
    assert all(
        math.isnan(float(value)) for value in (stats.max, stats.min, stats.mean, stats.norm) if value is not None
    )
    assert None not in (stats.max, stats.min, stats.mean, stats.norm)


def test_opposite_infinities_have_extremes_but_no_mean() -> None:
    stats = finished("float32", RawStats(math.inf, -math.inf, math.nan, math.inf))
    assert (stats.max, stats.min, stats.norm) == (math.inf, -math.inf, math.inf)
    assert stats.mean is not None and math.isnan(stats.mean)


@pytest.mark.parametrize(
    ("dtype", "precision", "value", "expected"),
    [
        ("bfloat16", "low", 31.622776601683793, 31.625),
        ("bfloat16", "high", 31.622776601683793, 31.62277603149414),
        ("float16", "low", 0.1, 0.0999755859375),
        ("float16", "high", 0.1, 0.10000000149011612),
        ("float32", "low", 0.1, 0.10000000149011612),
        ("float32", "high", 0.1, 0.10000000149011612),
        ("float8_e5m2", "low", 0.1, 0.10000000149011612),
        ("float64", "low", 0.1, 0.1),
        ("int32", "low", 0.1, 0.1),
    ],
)
def test_rounding_by_precision(dtype: str, precision: Precision, value: float, expected: float) -> None:
    assert rounded(dtype, value, precision) == expected


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float16", 1039230.4845413264, 1039230.5),
        ("float32", 5e39, 5e39),
        ("bfloat16", 5e39, 5e39),
        ("float16", math.inf, math.inf),
    ],
)
def test_a_finite_value_is_never_reported_as_infinite(dtype: str, value: float, expected: float) -> None:
    assert rounded(dtype, value) == expected


def test_every_statistic_of_the_table_has_its_field_and_its_key() -> None:
    node: dict[str, object] = {}
    set_statistics(node, range(len(STATISTICS)))
    assert list(node.items()) == list(zip(STATISTIC_NAMES, range(len(STATISTICS)), strict=True))
    assert len(TensorStats._fields) == len(RawStats._fields) == len(STATISTICS)


def test_repeated_elements_change_the_norm_only() -> None:
    assert repeated(RawStats(2.0, -1.0, 0.5, 3.0), 4) == RawStats(2.0, -1.0, 0.5, 6.0)
