"""The projection sees elements that change places, and every backend computes the same one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.projection import BLOCK, block_weights, position_weights, projection
from msprobe.native.loader import load

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
    found = KERNEL.projection(values.ctypes.data, size, dtype.code)
    assert found == pytest.approx(projection(values), rel=1e-12, abs=1e-12 * float(np.abs(values.astype(float)).sum()))


@pytest.mark.skipif(KERNEL is None, reason="needs the compiled kernel")
def test_the_kernel_widens_bfloat16() -> None:
    assert KERNEL is not None
    values = np.arange(-2000, 2000, dtype=np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    widened = (bits.astype(np.uint32) << 16).view(np.float32)
    dtype = find_dtype("bfloat16")
    assert dtype is not None
    assert KERNEL.projection(bits.ctypes.data, bits.size, dtype.code) == pytest.approx(projection(widened), rel=1e-12)


ODD = {"nan": [1.0, math.nan], "infinity": [1.0, math.inf], "both_infinities": [math.inf, math.inf, -math.inf]}


@pytest.mark.parametrize("case", list(ODD))
def test_values_that_are_not_finite(case: str) -> None:
    values = np.array(ODD[case] + [0.5] * 40)
    found = projection(values)
    assert found is not None and not math.isfinite(found)
    if KERNEL is not None:
        assert not math.isfinite(KERNEL.projection(values.ctypes.data, values.size, 12) or 0.0)


def test_nothing_has_no_projection() -> None:
    assert projection(np.zeros((0, 3))) is None
    assert KERNEL is None or KERNEL.projection(0, 0, 11) is None
