"""The projection sees elements that change places, and every backend computes the same one."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from msprobe.core.tensors.dtypes import ALL_DTYPES, DType, find_dtype
from msprobe.core.tensors.numpy_ops import decode
from msprobe.core.tensors.projection import BLOCK, block_weights, position_weights, projection
from msprobe.native.loader import load
from tests.native.random_bits import random_bits

KERNEL = load()
TYPES = ["bool", "uint8", "int16", "int64", "uint64", "float16", "float32", "float64"]


def test_weights_are_distinct_and_bounded() -> None:
    for weights in (position_weights(), block_weights(1000)):
        assert len(np.unique(np.abs(weights))) == len(weights)
        assert np.abs(weights).min() >= 0.5 and np.abs(weights).max() < 1.0
        assert abs(np.sign(weights).mean()) < 0.1


def test_weights_do_not_depend_on_the_size_or_the_version() -> None:
    assert block_weights(3).tolist() == block_weights(2000)[:3].tolist()
    assert position_weights()[:2].tolist() == [
        -0.9416554041068212,
        0.715763998524255,
    ]  # splitmix64(0) is 0xE220A8397B1DCDAF


@given(npst.arrays(np.float64, st.integers(2, 5000), elements=st.floats(-100, 100)), st.data())
def test_two_elements_that_change_places_are_seen(values: np.ndarray, data: st.DataObject) -> None:
    one, other = (data.draw(st.integers(0, values.size - 1)) for _ in range(2))
    swapped = values.copy()
    swapped[[one, other]] = values[[other, one]]
    apart, found, before = abs(values[one] - values[other]), projection(swapped), projection(values)
    assert found is not None and before is not None
    if one == other or apart == 0:
        assert found == before
    elif apart > 1e-3:
        assert abs(found - before) > 1e-9


@pytest.mark.skipif(KERNEL is None, reason="needs the compiled kernel")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("size", [1, 7, 16, BLOCK, BLOCK + 5, 3 * BLOCK])
def test_the_kernel_agrees(kind: str, size: int) -> None:
    assert KERNEL is not None
    values = (np.random.default_rng(size).normal(size=size) * 50).astype(kind)
    dtype = find_dtype(kind)
    assert dtype is not None
    found = KERNEL.summary(values.ctypes.data, size, dtype.code, False, True)[-1]
    assert found == pytest.approx(projection(values), rel=1e-12, abs=1e-12 * float(np.abs(values.astype(float)).sum()))


@pytest.mark.skipif(KERNEL is None, reason="needs the compiled kernel")
def test_the_kernel_widens_bfloat16() -> None:
    assert KERNEL is not None
    values = np.arange(-2000, 2000, dtype=np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    widened = (bits.astype(np.uint32) << 16).view(np.float32)
    dtype = find_dtype("bfloat16")
    assert dtype is not None
    assert KERNEL.summary(bits.ctypes.data, bits.size, dtype.code, False, True)[-1] == pytest.approx(
        projection(widened), rel=1e-12
    )


ODD = {"nan": [1.0, math.nan], "infinity": [1.0, math.inf], "both_infinities": [math.inf, math.inf, -math.inf]}


@pytest.mark.parametrize("case", list(ODD))
def test_values_that_are_not_finite(case: str) -> None:
    values = np.array(ODD[case] + [0.5] * 40)
    found = projection(values)
    assert found is not None and not math.isfinite(found)
    if KERNEL is not None:
        assert not math.isfinite(KERNEL.summary(values.ctypes.data, values.size, 12, False, True)[-1] or 0.0)


def test_nothing_has_no_projection() -> None:
    assert projection(np.zeros((0, 3))) is None
    assert KERNEL is None or KERNEL.summary(0, 0, 11, False, True)[-1] is None


def _formula(values: list[float]) -> float:
    """The sum of the module text, term by term, in exact rationals."""

    def weight(k: int) -> Fraction:
        u = (k + 1) * 0x9E3779B97F4A7C15 % 2**64
        u = (u ^ u >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        u = (u ^ u >> 27) * 0x94D049BB133111EB % 2**64
        u ^= u >> 31
        size = Fraction(1, 2) + Fraction(u >> 12, 2**53)
        return -size if u % 2 else size

    terms = (Fraction(v) * weight(2**32 + i // 2048) * weight(i % 2048) for i, v in enumerate(values))
    return float(sum(terms, Fraction(0)))


@given(npst.arrays(np.float32, st.integers(1, 40), elements=st.floats(-100, 100, width=32)), st.integers(0, 4200))
@settings(max_examples=60, deadline=None)
def test_every_way_computes_the_formula(values: np.ndarray, zeros: int) -> None:
    padded = np.concatenate([np.zeros(zeros, np.float32), values])
    wanted, within = _formula(padded.tolist()), 1e-14 * float(np.abs(values).astype(float).sum())
    assert projection(padded) == pytest.approx(wanted, abs=within)
    if KERNEL is not None:
        found = KERNEL.summary(padded.ctypes.data, padded.size, 11, False, True)[-1]
        assert found == pytest.approx(wanted, abs=within)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.skipif(KERNEL is None, reason="needs the compiled kernel")
@pytest.mark.parametrize("dtype", [dtype for dtype in ALL_DTYPES if dtype.code >= 0], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("size", [1, 15, 2047, 2049, 4096, 4099, 9000])
def test_the_statistics_beside_it_do_not_change(dtype: DType, size: int) -> None:
    assert KERNEL is not None
    bits = random_bits(dtype, size, size)
    at = (bits.ctypes.data, size, dtype.code, False)
    *values, found = KERNEL.summary(*at, True)
    assert repr(tuple(values)) == repr(KERNEL.summary(*at))
    *first, crc = KERNEL.summary_crc32(*at, True)
    assert repr(first) == repr([*values, found]) and crc == KERNEL.crc32(bits.ctypes.data, bits.nbytes)
    decoded = decode(bits, dtype)
    with np.errstate(all="ignore"):
        within = 1e-13 * float(np.abs(decoded).sum())
    assert found == pytest.approx(projection(decoded), abs=within if math.isfinite(within) else 0, nan_ok=True)
