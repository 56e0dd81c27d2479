"""The sum of squares and the count of small elements against numpy, for every float type and length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.numpy_ops import decode

TYPES = ("float16", "bfloat16", "float32", "float64")
LENGTHS = (0, 1, 31, 32, 33, 63, 64, 65, 127, 2047, 2049, 65535, 65537, 200_001)


def bits(name: str, length: int) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    values[::7] = 0
    if name == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(name)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", TYPES)
def test_moments_are_those_of_numpy(kernel: Any, name: str, length: int) -> None:
    dtype = find_dtype(name)
    assert dtype is not None
    array = bits(name, length)
    exact = np.asarray(decode(array, dtype), dtype=np.float64)
    assert kernel.squares(array.ctypes.data, length, dtype.code) == pytest.approx(float(exact @ exact), rel=1e-12)
    assert kernel.small(array.ctypes.data, length, dtype.code, 0.5) == int((np.abs(exact) < 0.5).sum())


@pytest.mark.parametrize("place", [0, 479, 480, 777, 959, 960, 992, 999], ids=str)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_odd_element_is_seen(kernel: Any, value: float, place: int) -> None:
    array = np.zeros(1000, np.float32)
    array[place] = value
    assert not math.isfinite(kernel.squares(array.ctypes.data, 1000, 11))


def test_other_types_are_refused(kernel: Any) -> None:
    array = np.zeros(4, np.int32)
    with pytest.raises(ValueError, match="dtype code"):
        kernel.squares(array.ctypes.data, 4, 5)
    with pytest.raises(TypeError, match="arguments"):
        kernel.small(array.ctypes.data, 4, 11)
