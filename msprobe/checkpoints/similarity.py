"""Measures how similar two tensors are.

With a and b flattened, in float64 (complex numbers as pairs of numbers):

    l2      |a - b|, data units
    cos     a.b / (|a| |b|), -1 to 1; 1 if both are zero, null if one is; exactly 1 when they are equal

Both are None when a shape differs or an element is NaN or infinite; ``problem`` then names the reason. Elements are
read in chunks, so that two tensors of any size need little memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.core.tensors.numpy_ops import decode

_CHUNK = 1 << 18
_SQUARES_FIT = (1e-280, 1e280)
"""Between these, a sum of squares neither underflowed nor overflowed in float64."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Similarity:
    """The similarity of two tensors; the module defines ``l2`` and ``cos``.

    ``problem`` is empty when both numbers exist, and for different shapes.
    """

    l2: float | None = None
    cos: float | None = None
    problem: str = ""


_Values = tuple[NDArray[Any], str]
"""Flat elements and the name of their dtype."""


@dataclass(slots=True)
class _Sums:
    """Sums over all elements: a.b, a.a, b.b and (a - b).(a - b)."""

    dot: float = 0.0
    first: float = 0.0
    second: float = 0.0
    difference: float = 0.0

    def add(self, a: Floats, b: Floats) -> None:
        difference = a - b
        self.dot += float(a @ b)
        self.first += float(a @ a)
        self.second += float(b @ b)
        self.difference += float(difference @ difference)

    @property
    def fit(self) -> bool:
        """Return whether no sum of squares underflowed or overflowed."""
        return all(_SQUARES_FIT[0] < norm < _SQUARES_FIT[1] for norm in (self.first, self.second))


def similarity(first: LazyTensor, second: LazyTensor) -> Similarity:
    """Compare two tensors of any shapes and types; a tensor that cannot be read gives a ``problem``."""
    if first.shape != second.shape:
        return Similarity()
    try:
        a, b = _flat(first), _flat(second)
    except ReadError as error:
        return Similarity(problem=error.error_info)
    with np.errstate(all="ignore"):
        sums = _sum_up(a, b, 1.0)
        return _from_sums(a, b, sums, 1.0) if sums.fit else _compare_unusual(a, b)


def _compare_unusual(a: _Values, b: _Values) -> Similarity:
    """Compare elements that are not finite, all zero, or too large or small for their squares."""
    non_finite = [_not_finite(values) for values in (a, b)]
    if any(non_finite):
        first, second = non_finite
        return Similarity(problem=f"NaN or infinite: {first} elements of the first, {second} of the second")
    largest = [_largest(values) for values in (a, b)]
    scale = max(largest) or 1.0
    sums = _sum_up(a, b, scale)
    if not all(largest):
        return Similarity(math.sqrt(sums.difference) * scale, None if any(largest) else 1.0)
    return _from_sums(a, b, sums, scale)


def _from_sums(a: _Values, b: _Values, sums: _Sums, scale: float) -> Similarity:
    l2 = math.sqrt(sums.difference) * scale or _exact_distance(a, b)
    if l2 == 0.0:
        return Similarity(0.0, 1.0)
    norms = math.sqrt(sums.first) * math.sqrt(sums.second)
    return Similarity(l2, min(max(sums.dot / norms, -1.0), 1.0) if norms else None)


def _exact_distance(a: _Values, b: _Values) -> float:
    """Return |a - b| where it is 0 in float64: for tiny differences and for integers of more than 53 bits."""
    if a[1] == b[1] and np.array_equal(a[0], b[0]):
        return 0.0
    total = 0.0
    for left, right in zip(_exact_chunks(a), _exact_chunks(b), strict=True):
        distances = np.abs(left - right)
        largest = distances.max()
        if largest:
            total = math.hypot(total, float(largest) * math.sqrt(float(np.sum((distances / largest) ** 2))))
    return total


def _sum_up(a: _Values, b: _Values, scale: float) -> _Sums:
    sums = _Sums()
    for left, right in zip(_chunks(a), _chunks(b), strict=True):
        if scale == 1.0:
            sums.add(left, right)
        else:
            sums.add(left / scale, right / scale)
    return sums


def _not_finite(values: _Values) -> int:
    return sum(chunk.size - int(np.count_nonzero(np.isfinite(chunk))) for chunk in _chunks(values))


def _largest(values: _Values) -> float:
    return max((float(np.abs(chunk).max()) for chunk in _chunks(values)), default=0.0)


def _chunks(source: _Values) -> Iterator[Floats]:
    values, name = source
    dtype = find_dtype(name)
    assert dtype is not None  # checked by _flat
    for start in range(0, values.size, _CHUNK):
        yield decode(values[start : start + _CHUNK], dtype)


def _exact_chunks(source: _Values) -> Iterator[NDArray[np.longdouble]]:
    values, _ = source
    if values.dtype.kind in "iu" and source[1] == values.dtype.name:
        for start in range(0, values.size, _CHUNK):
            yield values[start : start + _CHUNK].astype(np.longdouble)
    else:
        yield from (chunk.astype(np.longdouble) for chunk in _chunks(source))


def _flat(tensor: LazyTensor) -> _Values:
    """Return the elements in row-major order and their dtype; complex elements as pairs of their parts."""
    dtype = find_dtype(tensor.dtype)
    if dtype is None:
        raise ReadError(f"elements of type {tensor.dtype} cannot be read")
    values = np.ravel(tensor.read())
    if dtype.kind is not DtypeKind.COMPLEX:
        return values, dtype.name
    part = {8: "float32", 16: "float64", 4: "float16"}[dtype.itemsize]
    return np.ascontiguousarray(values).view(part), part
