"""The compiled sums of two tensors against those of numpy."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import ALL_DTYPES, DType, DtypeKind
from msprobe.native.loader import load
from msprobe.numerics.metrics import pair_sums as module
from msprobe.numerics.metrics.pair_sums import PairSums, pair_sums

KERNEL = load()
pytestmark = pytest.mark.skipif(KERNEL is None, reason="the kernel is not built")
FLOATS = [dtype for dtype in ALL_DTYPES if dtype.kind is DtypeKind.FLOAT and dtype.code >= 0]
SIGNED = [dtype for dtype in FLOATS if dtype.name != "float8_e8m0fnu"]


def by_numpy(a: NDArray[Any], b: NDArray[Any], dtype: DType) -> PairSums:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load", lambda: None)
        return pair_sums(a, b, dtype, dtype)


def assert_same(a: NDArray[Any], b: NDArray[Any], dtype: DType) -> None:
    ours, theirs = pair_sums(a, b, dtype, dtype), by_numpy(a, b, dtype)
    if theirs.odd_first or theirs.odd_second:
        assert (ours.odd_first, ours.odd_second) == (theirs.odd_first, theirs.odd_second)
        return
    for field in fields(PairSums):
        assert getattr(ours, field.name) == pytest.approx(getattr(theirs, field.name), rel=1e-6), field.name
    assert ours.steps == theirs.steps
    assert (ours.apart == 0.0) == (theirs.apart == 0.0)


def bits(dtype: DType, size: int, seed: int) -> NDArray[Any]:
    """Return any bits of a type, of which some are NaN or infinite."""
    raw = np.random.default_rng(seed).integers(0, 256, size * dtype.itemsize, dtype=np.uint8)
    return raw.view(dtype.container)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("size", [1, 7, 8, 2047, 2049, 5001])
def test_any_bits(dtype: DType, size: int) -> None:
    assert_same(bits(dtype, size, 1), bits(dtype, size, 2), dtype)


@pytest.mark.parametrize("dtype", SIGNED, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("size", [1, 9, 2048, 5001])
def test_finite_values(dtype: DType, size: int) -> None:
    # An exponent of ones only, and a magnitude of ones, are taken out: the highest bit of the magnitude is 0.
    mask = np.array((1 << (8 * dtype.itemsize - 2)) - 1 | 1 << (8 * dtype.itemsize - 1), f"u{dtype.itemsize}")
    sides = [(bits(dtype, size, seed).view(mask.dtype) & mask).view(dtype.container) for seed in (1, 2)]
    if dtype.name.endswith("fnuz"):
        sides = [np.where(side == 0x80, 0, side).astype(np.uint8) for side in sides]
    assert_same(sides[0], sides[1], dtype)


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_one_step_and_zeros_of_both_signs(name: str) -> None:
    dtype = next(one for one in FLOATS if one.name == name)
    a = np.array([1.0, -1.0, 0.0, -0.0, 3.0], name)
    b = np.array([np.nextafter(np.array(1.0, name), np.array(2.0, name)), -1.0, -0.0, 0.0, 3.0], name)
    assert pair_sums(a, b, dtype, dtype).steps == 1
    assert pair_sums(a[1:], b[1:], dtype, dtype).apart == 0.0
    assert (
        pair_sums(
            np.array([-0.0], name), np.array([np.nextafter(np.array(0, name), np.array(1, name))]), dtype, dtype
        ).steps
        == 1
    )


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_not_finite_elements_are_counted_on_each_side(odd: float) -> None:
    a, b = np.ones((2, 5000), np.float32)
    a[[3, 2500, 4999]] = odd
    b[7] = odd
    dtype = next(one for one in FLOATS if one.name == "float32")
    found = pair_sums(a, b, dtype, dtype)
    assert (found.odd_first, found.odd_second) == (3, 1)


def test_wrong_arguments() -> None:
    assert KERNEL is not None
    array = np.zeros(4, np.int32)
    with pytest.raises(ValueError, match="dtype code"):
        KERNEL.similarity(array.ctypes.data, array.ctypes.data, 4, 5)
    with pytest.raises(TypeError, match="expected"):
        KERNEL.similarity(array.ctypes.data)  # type: ignore[call-arg]
