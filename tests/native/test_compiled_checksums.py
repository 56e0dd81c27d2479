"""The compiled checksums against zlib and the Python definition."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from msprobe.core.tensors.checksums import format_xor, xor
from msprobe.setup_check.collection.content_hash import _numpy_sum

DATA = np.random.default_rng(7).integers(0, 256, 300_007, dtype=np.uint8)
LENGTHS = [*range(200), 1023, 1024, 1025, 65_537, 300_000]


@pytest.mark.slow
def test_crc_of_every_length_and_offset_is_that_of_zlib(kernel: Any) -> None:
    for length in LENGTHS:
        for offset in (0, 1, 7):
            piece = DATA[offset : offset + length]
            assert kernel.crc32(piece.ctypes.data, length) == zlib.crc32(piece)


def test_crc_can_be_continued(kernel: Any) -> None:
    for cut in (0, 1, 63, 64, 100, 5000):
        head = kernel.crc32(DATA.ctypes.data, cut)
        assert kernel.crc32(DATA.ctypes.data + cut, DATA.size - cut, head) == zlib.crc32(DATA)


def test_xor_of_every_length(kernel: Any) -> None:
    for length in LENGTHS:
        piece = DATA[3 : 3 + length]
        assert format_xor(kernel.xor64(piece.ctypes.data, length)) == xor(piece)


@pytest.mark.parametrize("n", [0, 1, 15, 2048, 2049, 70_000])
def test_one_pass_gives_statistics_and_crc(kernel: Any, n: int) -> None:
    array = np.random.default_rng(n).normal(size=n).astype(np.float32)
    assert kernel.summary_crc32(array.ctypes.data, n, 11) == (
        *kernel.summary(array.ctypes.data, n, 11),
        zlib.crc32(array),
    )


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_sum_of_elements_is_that_of_numpy(kernel: Any, width: int) -> None:
    for elements in (0, 1, 7, 1000, 30_001):
        for offset in (0, 3):
            piece = DATA[offset : offset + elements * width].copy()
            expected = _numpy_sum(piece.view(f"u{width}"))
            assert kernel.element_sum(piece.ctypes.data, piece.size, width) == expected
    for wrong in (0, 3, 16):
        with pytest.raises(ValueError, match="no sum of elements"):
            kernel.element_sum(DATA.ctypes.data, 48, wrong)


def test_null_pointers_are_refused(kernel: Any) -> None:
    for function in (kernel.crc32, kernel.xor64):
        assert function(0, 0) == 0
        with pytest.raises(ValueError, match="null pointer"):
            function(0, 8)
        with pytest.raises(TypeError, match="expected"):
            function(0)
