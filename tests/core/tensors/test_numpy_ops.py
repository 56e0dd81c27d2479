"""The reference statistics, checked against exact sums and hand-worked cases."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe.core.tensors.numpy_ops import meta, statistics
from msprobe.core.tensors.statistics import NO_STATS, TensorMeta, TensorStats

NAN, INF = math.nan, math.inf


def test_meta() -> None:
    assert meta(np.zeros((2, 3), np.int16)) == TensorMeta("numpy.ndarray", "int16", (2, 3), None)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([3.0, -4.0]), TensorStats(3.0, -4.0, -0.5, 5.0)),
        (np.array(-2.5, np.float32), TensorStats(-2.5, -2.5, -2.5, 2.5)),
        (np.array([1.0, INF], np.float16), TensorStats(INF, 1.0, INF, INF)),
        (np.full(300, 60000, np.float16), TensorStats(60000.0, 60000.0, 60000.0, 1039230.5)),
        (np.array([1e200, -3e200]), TensorStats(1e200, -3e200, -1e200, 3.1622776601683794e200)),
        (np.array([1e308] * 4), TensorStats(1e308, 1e308, 1e308, INF)),
        (np.array([True, False]), TensorStats(True, False)),
        (np.array(False), TensorStats(False, False)),
        (
            np.array([2**53 + 1, -(2**62)]),
            TensorStats(2**53 + 1, -(2**62), -2.3013394095863235e18, 4.611694814512022e18),
        ),
        (np.array([2**64 - 1, 1], np.uint64), TensorStats(2**64 - 1, 1, 2.0**63, 2.0**64)),
        (np.array(5, np.int8), TensorStats(5, 5, 5.0, 5.0)),
        (np.array([-(2**31)] * 2, np.int32), TensorStats(-(2**31), -(2**31), -(2.0**31), 2.0**31.5)),
        (np.array([3 + 4j, 0], np.complex64), TensorStats(5.0, 0.0, 2.5, 5.0)),
        (np.array([3 + 4j, 0], np.complex128), TensorStats(5.0, 0.0, 2.5, 5.0)),
        (np.array([complex(INF, NAN), 1]), TensorStats(INF, 1.0, INF, INF)),
        (np.array([3.0, -4.0], ">f4"), TensorStats(3.0, -4.0, -0.5, 5.0)),
        (np.array([3.0, -4.0], np.longdouble), TensorStats(3.0, -4.0, -0.5, 5.0)),
        (np.zeros((0, 3)), NO_STATS),
        (np.array(["a", "b"]), NO_STATS),
        (np.array([None, 1], object), NO_STATS),
        (np.array(["2020-01-01"], "datetime64[D]"), NO_STATS),
    ],
    ids=str,
)
def test_table(array: NDArray[Any], expected: TensorStats) -> None:
    stats = statistics(array)
    assert stats == expected
    assert type(stats.max) is type(expected.max)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("position", [0, 1, 70_000, 99_999])
def test_nan_anywhere_is_seen(dtype: type, position: int) -> None:
    array = np.ones(100_000, dtype)
    array[position] = NAN
    stats = statistics(array)
    assert all(
        isinstance(value, float) and math.isnan(value) for value in (stats.max, stats.min, stats.mean, stats.norm)
    )


def test_opposite_infinities() -> None:
    stats = statistics(np.array([1.0, INF, -INF], np.float32))
    assert (stats.max, stats.min, stats.norm) == (INF, -INF, INF)
    assert isinstance(stats.mean, float) and math.isnan(stats.mean)


@example([2.2250738585e-313, 2.2250738585e-313])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1, max_size=40))
def test_double_agrees_with_exact_sums(values: list[float]) -> None:
    stats = statistics(np.array(values))
    scale = max(abs(value) for value in values) or 1.0
    scaled = [value / scale for value in values]
    assert (stats.max, stats.min) == (max(values), min(values))
    assert stats.mean is not None and stats.norm is not None
    step = math.ulp(0.0) / scale  # a result of 1e-313 is only known to so much of itself
    assert stats.mean / scale == pytest.approx(math.fsum(scaled) / len(values), rel=1e-12, abs=max(1e-14, step))
    exact = math.sqrt(math.fsum(value * value for value in scaled))
    assert stats.norm == INF or stats.norm / scale == pytest.approx(exact, rel=1e-12, abs=step)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40))
def test_integers_agree_with_exact_sums(values: list[int]) -> None:
    stats = statistics(np.array(values, np.int64))
    assert (stats.max, stats.min) == (max(values), min(values))
    magnitude = max(abs(value) for value in values)
    assert stats.mean == pytest.approx(sum(values) / len(values), abs=1e-13 * magnitude)
    assert stats.norm == pytest.approx(math.sqrt(sum(value * value for value in values)), rel=1e-13)


@pytest.mark.parametrize("view", [np.s_[:], np.s_[::-1], np.s_[:, ::3], np.s_[5:6], np.s_[:, 0]], ids=str)
def test_layout_does_not_matter(view: Any) -> None:
    array = np.random.default_rng(0).normal(size=(500, 300)).astype(np.float32)[view]
    stats, transposed, copied = statistics(array), statistics(array.T), statistics(array.copy())
    for ours, other in ((stats, copied), (transposed, copied)):
        assert (ours.max, ours.min) == (other.max, other.min)
        assert (ours.mean, ours.norm) == (pytest.approx(other.mean, rel=1e-6), pytest.approx(other.norm, rel=1e-6))


def test_extra_memory_is_bounded() -> None:
    array = np.ones((3000, 2000), np.float32)[:, ::2]
    tracemalloc.start()
    statistics(array)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < array.size * 4 / 2


@pytest.mark.parametrize(
    ("bits", "dtype", "expected"),
    [
        (np.array([0x3FC0, 0xC020], np.uint16), "bfloat16", TensorStats(1.5, -2.5, -0.5, 2.921875)),
        (np.array([0x3FC0, 0xC020], np.uint16).view(np.int16), "bfloat16", TensorStats(1.5, -2.5, -0.5, 2.921875)),
        (np.array([0x38, 0xC4], np.uint8), "torch.float8_e4m3fn", TensorStats(1.0, -3.0, -1.0, 3.1622776985168457)),
        (np.array([0x3C00, 0x4000], np.uint16), "float16", TensorStats(2.0, 1.0, 1.5, 2.236328125)),
        (np.array([0x44004200, 0], np.uint32), "complex32", TensorStats(5.0, 0.0, 2.5, 5.0)),
        (np.array([1, 0], np.uint8), "bool", TensorStats(True, False)),
    ],
    ids=["bfloat16", "bfloat16 in int16", "float8", "float16", "complex32", "bool"],
)
def test_raw_bits(bits: NDArray[Any], dtype: str, expected: TensorStats) -> None:
    assert statistics(bits, dtype) == expected


def test_high_precision_is_not_rounded_to_the_narrow_dtype() -> None:
    bits = np.full(1000, 0x3F80, np.uint16)
    assert statistics(bits, "bfloat16").norm == 31.625
    assert statistics(bits, "bfloat16", "high").norm == 31.62277603149414


@pytest.mark.parametrize(
    ("dtype", "message"), [("float9", "'float9' is not a known element type"), ("bfloat16", "2 bytes per element")]
)
def test_a_wrong_dtype_is_refused(dtype: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        statistics(np.zeros(3, np.float32), dtype)
