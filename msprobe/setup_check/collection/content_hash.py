"""Hashes of tensors: one of the content, one of the elements in any order."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.native import fused

_SIZE = 16
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FACTOR, _SHIFT = np.uint64(0xFF51AFD7ED558CCD), np.uint64(33)
_CHUNK = 1 << 16
"""Elements that are summed at once: they stay in the cache of the processor."""


def content_hash(data: NDArray[np.uint8], dtype: str, shape: tuple[int, ...]) -> str:
    """Return a hash of dtype, shape and bytes (BLAKE2b, 128 bits), the same on every framework."""
    digest = hashlib.blake2b(f"{dtype.rpartition('.')[2].lower()} {list(shape)}".encode(), digest_size=_SIZE)
    digest.update(data.data)
    return digest.hexdigest()


def element_sum(data: NDArray[np.uint8], width: int) -> str:
    """Return a sum over the mixed bit patterns, modulo 2**64: equal for the same elements in any order.

    A plain sum would stay the same where as many elements move up as move down by one unit; so each pattern is mixed
    first (the finalizer of MurmurHash3).

    Args:
        data: the bytes.
        width: bytes per element; elements of other widths than 1, 2, 4 and 8 have no sum.
    """
    kind = _WORDS.get(width)
    if kind is None or data.size % width:
        return ""
    if fused is not None and data.size:
        return f"{fused.element_sum(data.ctypes.data, data.size, width):016x}"
    return f"{_numpy_sum(data.view(kind)):016x}"


def _numpy_sum(words: NDArray[Any]) -> int:
    total = 0
    for at in range(0, words.size, _CHUNK):
        wide = words[at : at + _CHUNK].astype(np.uint64)
        wide *= _FACTOR
        wide ^= wide >> _SHIFT
        wide *= _FACTOR
        wide ^= wide >> _SHIFT
        total += int(wide.sum(dtype=np.uint64))
    return total % (1 << 64)
