"""Checksums of buffers and of arrays in any layout."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe.core.tensors.checksums import crc32, format_crc32, xor

BIG = np.arange(200_000, dtype=np.float32).reshape(400, 500)


def xor_by_words(data: bytes) -> str:
    padded = data + bytes(-len(data) % 8)
    result = 0
    for start in range(0, len(padded), 8):
        result ^= int.from_bytes(padded[start : start + 8], "little")
    return f"0x{result:016x}"


def test_known_values() -> None:
    assert crc32(b"123456789") == "cbf43926"
    assert crc32(b"") == "00000000"
    assert xor(b"") == "0x0000000000000000"
    assert xor(np.array([0x3FC0, 0x4020], np.uint16)) == "0x0000000040203fc0"  # 1.5 and 2.5 as bfloat16
    assert format_crc32(0xAB) == "000000ab"


@given(st.binary(max_size=300))
def test_definition(data: bytes) -> None:
    assert crc32(data) == f"{zlib.crc32(data):08x}"
    assert xor(data) == xor_by_words(data)
    assert crc32(memoryview(bytearray(data))) == crc32(data)


@pytest.mark.parametrize(
    "array",
    [
        BIG,
        BIG.T,
        BIG[::2, 1::3],
        np.broadcast_to(np.float32(1.5), (300, 301)),
        BIG.astype(">f4"),
        np.asfortranarray(BIG),
        np.array(3.25),
        np.zeros((0, 4), np.int16),
        np.array([True, False, True]),
        np.array([1 + 2j, -3j], np.complex64),
        BIG.astype(np.uint8)[:, ::-1],
        np.arange(70_001, dtype=np.uint8)[::1].reshape(-1, 1)[::-1],
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_arrays_count_in_row_major_little_endian_order(array: NDArray[Any]) -> None:
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert crc32(array) == f"{zlib.crc32(data):08x}"
    assert xor(array) == xor_by_words(data)


@pytest.mark.parametrize("checksum", [crc32, xor])
def test_python_objects_have_no_checksum(checksum: Callable[..., str]) -> None:
    with pytest.raises(TypeError, match="Python objects"):
        checksum(np.array([None, "a"], object))
