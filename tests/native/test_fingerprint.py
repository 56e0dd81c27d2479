"""The fingerprint: another one when a tensor has been written, and always from the same elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.tensors.dtypes import find_dtype
from msprobe.native.loader import Kernel

FLOAT32 = find_dtype("float32").code  # type: ignore[union-attr]


def taken(kernel: Kernel, array: np.ndarray, code: int = FLOAT32) -> int:
    return kernel.fingerprint(array.ctypes.data, array.size, code)


def read_places(kernel: Kernel, count: int) -> list[int]:
    """The elements that matter."""
    array = np.zeros(count, np.float32)
    before, found = taken(kernel, array), []
    for place in range(count):
        array[place] = 1
        if taken(kernel, array) != before:
            found.append(place)
        array[place] = 0
    return found


@given(count=st.integers(1, 100_000), shift=st.floats(2**-10, 1, width=32))
def test_a_tensor_written_whole_has_another(kernel: Kernel, count: int, shift: float) -> None:
    array = np.linspace(-1, 1, count, dtype=np.float32)
    before = taken(kernel, array)
    assert taken(kernel, array.copy()) == before
    assert taken(kernel, array + np.float32(shift)) != before


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 1000, 4096])
def test_first_and_last_are_read_and_one_of_each_part_between(kernel: Kernel, count: int) -> None:
    places = read_places(kernel, count)
    assert {0, count - 1} <= set(places)
    if count < 64:
        assert places == list(range(count))
    else:
        assert len(places) == 64
        assert max(np.diff(places)) <= 2 * -(-count // 64)


@pytest.mark.parametrize("name", ["bool", "bfloat16", "float64", "complex128"])
def test_every_byte_of_an_element_counts(kernel: Kernel, name: str) -> None:
    dtype = find_dtype(name)
    assert dtype is not None
    array = np.zeros(1000 * dtype.itemsize, np.uint8)
    seen = set()
    for byte in range(dtype.itemsize):
        array[-1 - byte] = 1
        seen.add(kernel.fingerprint(array.ctypes.data, 1000, dtype.code))
    assert len(seen) == dtype.itemsize


def test_nothing_has_a_fingerprint_too(kernel: Kernel) -> None:
    assert kernel.fingerprint(0, 0, FLOAT32) == kernel.fingerprint(0, 0, FLOAT32)
