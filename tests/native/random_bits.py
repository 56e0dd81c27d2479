"""Values of every dtype: ordinary ones, and any bit pattern."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import DType, DtypeKind


def bits_of(dtype: DType, raw: bytes) -> NDArray[Any]:
    """Raw bytes as elements of the dtype (numpy's own, or the container)."""
    array = np.frombuffer(raw[: len(raw) // dtype.itemsize * dtype.itemsize], dtype.container).copy()
    return (np.frombuffer(raw, np.uint8) & 1).astype(bool) if dtype.kind is DtypeKind.BOOL else array


def random_bits(dtype: DType, n: int, seed: int) -> NDArray[Any]:
    """Ordinary values: normal for floats, every bit pattern for integers and 8-bit floats."""
    generator = np.random.default_rng(seed)
    if dtype.kind in (DtypeKind.FLOAT, DtypeKind.COMPLEX) and dtype.is_native:
        parts = generator.normal(size=n) if dtype.kind is DtypeKind.FLOAT else generator.normal(size=(n, 2)) @ [1, 1j]
        return np.asarray(parts).astype(dtype.name)
    if dtype.name == "bfloat16":
        return (generator.normal(size=n).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits_of(dtype, generator.bytes(n * dtype.itemsize))
