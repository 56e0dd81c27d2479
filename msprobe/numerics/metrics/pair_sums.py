"""Sums over the elements of two tensors, from which l2, cosine and distance in steps follow.

Sums of parts add up, so that tensors of any size are measured a range at a time. All are in float64, which holds every
element of other floats exactly; integers of more than 53 bits are rounded, but for ``apart``. Elements are real: the
caller passes complex numbers as pairs of their parts.

    steps    most steps between neighbouring numbers of the type that lie between two elements (``elements.py``). Of two
             types: after the finer side was rounded to the coarser one; None where one of them is of integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import DType, DtypeKind, find_dtype
from msprobe.core.tensors.numpy_ops import decode, rounded
from msprobe.native.loader import load
from msprobe.numerics.metrics.elements import farthest, ordered

Array = NDArray[Any]

_CHUNK = 1 << 16
_EXACT_IN_FLOAT32 = 24  # digits


@dataclass(frozen=True, slots=True)
class PairSums:
    """Sums over pairs of elements a, b, in units of the data or their square.

    Attributes:
        dot, first, second, difference: a.b, a.a, b.b and (a - b).(a - b).
        apart: max |a - b|; 0 exactly where all values are equal.
        largest_first, largest_second: max |a|, max |b|.
        odd_first, odd_second: how many a and b are NaN or infinite; where there is one, all else means nothing.
        steps: see the module.
    """

    dot: float = 0.0
    first: float = 0.0
    second: float = 0.0
    difference: float = 0.0
    apart: float = 0.0
    largest_first: float = 0.0
    largest_second: float = 0.0
    odd_first: int = 0
    odd_second: int = 0
    steps: int | None = 0

    def __add__(self, other: PairSums) -> PairSums:
        """Return the sums over the elements of both."""
        return PairSums(
            self.dot + other.dot,
            self.first + other.first,
            self.second + other.second,
            self.difference + other.difference,
            max(self.apart, other.apart),
            max(self.largest_first, other.largest_first),
            max(self.largest_second, other.largest_second),
            self.odd_first + other.odd_first,
            self.odd_second + other.odd_second,
            None if self.steps is None or other.steps is None else max(self.steps, other.steps),
        )


def pair_sums(a: Array, b: Array, first: DType, second: DType) -> PairSums:
    """Return the sums over two flat arrays of one size; each is in the container of its dtype, which is real."""
    if DtypeKind.FLOAT is first.kind is second.kind:
        if first is second:
            return _of_one_type(np.ascontiguousarray(a), np.ascontiguousarray(b), first)
        return _of_two_types(a, b, first, second)
    total = PairSums()
    for start in range(0, a.size, _CHUNK):
        total += _of_integers(a[start : start + _CHUNK], b[start : start + _CHUNK], first, second)
    return total


def _of_one_type(a: Array, b: Array, dtype: DType) -> PairSums:
    kernel = load()
    if kernel is not None and dtype.code >= 0 and a.size:
        return PairSums(*kernel.similarity(a.ctypes.data, b.ctypes.data, a.size, dtype.code))
    total = PairSums()
    for start in range(0, a.size, _CHUNK):
        left, right = a[start : start + _CHUNK], b[start : start + _CHUNK]
        total += _summed(decode(left, dtype), decode(right, dtype), farthest(ordered(left), ordered(right)))
    return total


def _of_two_types(a: Array, b: Array, first: DType, second: DType) -> PairSums:
    wide = find_dtype("float32" if max(first.digits, second.digits) <= _EXACT_IN_FLOAT32 else "float64")
    assert wide is not None
    coarse = min(first, second, key=lambda dtype: dtype.digits)
    total = PairSums()
    for start in range(0, a.size, _CHUNK):
        left, right = a[start : start + _CHUNK], b[start : start + _CHUNK]
        sums = _of_one_type(_widened(left, first, wide), _widened(right, second, wide), wide)
        steps = None
        if not sums.odd_first and not sums.odd_second:
            sides = [ordered(_bits(part, dtype, coarse)) for part, dtype in ((left, first), (right, second))]
            steps = farthest(sides[0], sides[1])
        total += replace(sums, steps=steps)
    return total


def _widened(values: Array, dtype: DType, wide: DType) -> Array:
    if dtype.name == "bfloat16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    elif not dtype.is_native:
        values = decode(values, dtype)
    return np.ascontiguousarray(values.astype(wide.container, copy=False))


def _bits(values: Array, dtype: DType, coarse: DType) -> Array:
    """Return finite elements, rounded to the coarse type, as numbers whose bits are in the order of the floats."""
    if dtype is coarse:
        return values
    with np.errstate(over="ignore"):
        if coarse.is_native:
            return _widened(values, dtype, coarse)
        near = rounded(decode(values, dtype), coarse)
    if coarse.name == "bfloat16":
        return (near.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return _places(near, coarse)


def _places(values: NDArray[np.float64], dtype: DType) -> Array:
    """Return the bits of 8-bit floats, which are numbers of their type."""
    every = decode(np.arange(256, dtype=np.uint8), dtype)
    finite = np.flatnonzero(np.isfinite(every))
    order = finite[np.argsort(every[finite], kind="stable")]
    found = np.searchsorted(every[order], values)
    return np.asarray(order[np.minimum(found, order.size - 1)], np.uint8)


def _of_integers(a: Array, b: Array, first: DType, second: DType) -> PairSums:
    """Return the sums where a side has integers or booleans."""
    if first is second:
        # As unsigned bytes: booleans have no difference.
        left, right = (side.view(np.uint8) if first.kind is DtypeKind.BOOL else side for side in (a, b))
        steps = farthest(left, right)
        return _summed(decode(a, first), decode(b, second), steps, float(steps))
    exact = [
        (side if dtype.kind is DtypeKind.INT else decode(side, dtype)).astype(np.longdouble)
        for side, dtype in ((a, first), (b, second))
    ]
    apart = float(np.abs(exact[0] - exact[1]).max(initial=0.0))
    return _summed(decode(a, first), decode(b, second), None, apart)


def _summed(a: NDArray[np.float64], b: NDArray[np.float64], steps: int | None, apart: float | None = None) -> PairSums:
    odd = [int(np.count_nonzero(~np.isfinite(side))) for side in (a, b)]
    if any(odd):
        return PairSums(odd_first=odd[0], odd_second=odd[1])
    distances = np.abs(a - b)
    if apart is None:
        apart = float(distances.max(initial=0.0))
    largest = [float(np.abs(side).max(initial=0.0)) for side in (a, b)]
    with np.errstate(over="ignore", under="ignore"):
        sums = (float(a @ b), float(a @ a), float(b @ b), float(distances @ distances))
    return PairSums(*sums, apart, largest[0], largest[1], 0, 0, steps)
