"""Measures how similar two tensors are.

With a and b flattened, in float64 (complex numbers as pairs of numbers):

    l2      |a - b|, data units
    cos     a.b / (|a| |b|), -1 to 1; 1 if both are zero, null if one is; exactly 1 when they are equal
    steps   most units in the last place between two elements (``numerics/metrics/pair_sums.py``)

All are None when a shape differs or an element is NaN or infinite; ``problem`` then names the reason. Elements are read
a range at a time (``measure_range``), so that two tensors of any size need little memory, and several threads can share
one tensor; ``concluded`` adds the ranges up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensors.dtypes import DType, DtypeKind, find_dtype
from msprobe.core.tensors.numpy_ops import decode, rounded
from msprobe.numerics.metrics.pair_sums import PairSums, pair_sums

_CHUNK_BYTES = 1 << 20
_SQUARES_FIT = (1e-280, 1e280)
"""Between these, a sum of squares neither underflowed nor overflowed in float64."""
_SAME_NORM = 1e-9  # of sums of the same squares in another order
_ALMOST_ALL = 0.999  # of the largest difference: the rest is rounding of the root
_PARTS = {8: "float32", 16: "float64", 4: "float16"}

Floats = NDArray[np.float64]
ReadRange = Callable[[int, int], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Similarity:
    """The similarity of two tensors; the module defines ``l2``, ``cos`` and ``steps``.

    ``problem`` is empty when l2 exists, and for different shapes. ``steps`` is also None for an integer against a
    float.
    """

    l2: float | None = None
    cos: float | None = None
    problem: str = ""
    steps: int | None = None
    equal_norms: bool = False
    """Whether both have the same norm, as those have that hold the same elements in another order, up to the rounding
    of the coarser type where there are two."""


def coarser(first: LazyTensor, second: LazyTensor) -> DType | None:
    """Return the type of fewer digits of two tensors of floats of different types; None for others."""
    types = find_dtype(first.dtype), find_dtype(second.dtype)
    floats = [one for one in types if one is not None and one.kind is DtypeKind.FLOAT]
    return min(floats, key=lambda one: one.digits) if len(floats) == 2 and types[0] is not types[1] else None


def float_elements(tensor: LazyTensor, coarse: DType | None = None) -> Callable[[int, int], Floats]:
    """Return a function that reads a range of real elements as float64, rounded to ``coarse`` where it is given.

    Raises:
        ReadError: the elements are complex, or of an unknown type.
    """
    elements = _Elements.of(tensor)
    if elements.parts != 1:
        raise ReadError(f"elements of type {tensor.dtype} are no real numbers")
    if coarse is None or coarse is elements.dtype:
        return lambda start, stop: elements.values(start, stop, exact=False)
    return lambda start, stop: rounded(elements.values(start, stop, exact=False), coarse)


def similarity(first: LazyTensor, second: LazyTensor) -> Similarity:
    """Compare two tensors of any shapes and types; a tensor that cannot be read gives a ``problem``."""
    if first.shape != second.shape:
        return Similarity()
    return concluded(first, second, [measure_range(first, second, 0, first.numel)])


def measure_range(first: LazyTensor, second: LazyTensor, start: int, stop: int) -> PairSums | str:
    """Return the sums over the elements from ``start`` to before ``stop``, or why they cannot be read.

    The shapes are equal. A tensor without ``read_range`` is read whole.
    """
    try:
        a, b = _Elements.of(first), _Elements.of(second)
        if a.parts != b.parts:
            return f"complex and real numbers: {first.dtype} against {second.dtype}"
        step = max(_CHUNK_BYTES // max(a.itemsize, b.itemsize), 1)
        total = PairSums()
        for begin in range(start, stop, step):
            end = min(begin + step, stop)
            total += pair_sums(a.read(begin, end), b.read(begin, end), a.dtype, b.dtype)
    except ReadError as error:
        return error.error_info
    except MemoryError:
        return f"not enough memory for {first.numel} elements"
    return total


def concluded(first: LazyTensor, second: LazyTensor, parts: Sequence[PairSums | str]) -> Similarity:
    """Return the similarity of two tensors from the sums over all ranges of their elements, in order."""
    total = PairSums()
    for part in parts:
        if isinstance(part, str):
            return Similarity(problem=part)
        total += part
    if total.odd_first or total.odd_second:
        odd = f"NaN or infinite: {total.odd_first} elements of the first, {total.odd_second} of the second"
        return Similarity(problem=odd)
    if total.apart == 0.0:
        return Similarity(0.0, 1.0, steps=0)
    largest = (total.largest_first, total.largest_second)
    if not all(
        most == 0.0 or _SQUARES_FIT[0] < square < _SQUARES_FIT[1]
        for most, square in zip(largest, (total.first, total.second), strict=True)
    ):
        return _scaled(first, second, total)
    distance = math.sqrt(total.difference)
    # Differences that are tiny beside the elements have no squares; nor have integers of more than 53 bits that differ.
    distance = distance if distance >= _ALMOST_ALL * total.apart else _exact_distance(first, second)
    return Similarity(
        distance,
        _cosine(total.dot, total.first, total.second),
        steps=total.steps,
        equal_norms=math.isclose(total.first, total.second, rel_tol=_norm_tolerance(first, second)),
    )


def _norm_tolerance(first: LazyTensor, second: LazyTensor) -> float:
    coarse = coarser(first, second)
    return _SAME_NORM if coarse is None else 2.0 * coarse.unit_roundoff


def _cosine(dot: float, square_first: float, square_second: float) -> float | None:
    norms = math.sqrt(square_first) * math.sqrt(square_second)
    return min(max(dot / norms, -1.0), 1.0) if norms else None


def _scaled(first: LazyTensor, second: LazyTensor, total: PairSums) -> Similarity:
    """Return the similarity of elements that are too large or too small for their squares: read once more."""
    scale = max(total.largest_first, total.largest_second)
    dot, squares, difference = 0.0, [0.0, 0.0], 0.0
    for left, right in _chunks(first, second):
        a, b = left / scale, right / scale
        dot += float(a @ b)
        squares[0] += float(a @ a)
        squares[1] += float(b @ b)
        difference += float((a - b) @ (a - b))
    distance = math.sqrt(difference) * scale or _exact_distance(first, second)
    return Similarity(distance, _cosine(dot, squares[0], squares[1]), steps=total.steps)


def _exact_distance(first: LazyTensor, second: LazyTensor) -> float:
    """Return |a - b| where float64 has no squares of the differences: read once more, with the digits of integers."""
    total = 0.0
    for left, right in _chunks(first, second, exact=True):
        distances = np.abs(left - right)
        largest = distances.max()
        if largest:
            total = math.hypot(total, float(largest) * math.sqrt(float(np.sum((distances / largest) ** 2))))
    return total


def _chunks(first: LazyTensor, second: LazyTensor, *, exact: bool = False) -> Iterator[tuple[Any, Any]]:
    """Yield the values of both sides in float64, or in the widest float of numpy."""
    a, b = _Elements.of(first), _Elements.of(second)
    step = _CHUNK_BYTES // 16
    with np.errstate(all="ignore"):
        for start in range(0, a.numel, step):
            stop = min(start + step, a.numel)
            yield a.values(start, stop, exact=exact), b.values(start, stop, exact=exact)


@dataclass(frozen=True, slots=True)
class _Elements:
    """The elements of one side, in row-major order; complex ones are pairs of their parts.

    Attributes:
        dtype: of an element, or of a part.
        numel: how many ranges count: elements of the tensor, not parts.
        parts: 2 for complex elements, otherwise 1.
        source: returns a range of elements of the tensor.
    """

    dtype: DType
    numel: int
    parts: int
    source: ReadRange

    @classmethod
    def of(cls, tensor: LazyTensor) -> _Elements:
        dtype = find_dtype(tensor.dtype)
        if dtype is None:
            raise ReadError(f"elements of type {tensor.dtype} cannot be read")
        source = tensor.read_range or _whole(tensor)
        if dtype.kind is not DtypeKind.COMPLEX:
            return cls(dtype, tensor.numel, 1, source)
        part = find_dtype(_PARTS[dtype.itemsize])
        assert part is not None
        return cls(part, tensor.numel, 2, source)

    @property
    def itemsize(self) -> int:
        """Return the bytes per element of the tensor."""
        return self.dtype.itemsize * self.parts

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return a range in the container of ``dtype``."""
        values = self.source(start, stop)
        if self.parts == 1:
            return values
        return np.ascontiguousarray(values).view(self.dtype.container)

    def values(self, start: int, stop: int, *, exact: bool) -> Any:
        """Return a range as floats."""
        bits = self.read(start, stop)
        if not exact:
            return decode(bits, self.dtype)
        return (bits if self.dtype.kind is DtypeKind.INT else decode(bits, self.dtype)).astype(np.longdouble)


def _whole(tensor: LazyTensor) -> ReadRange:
    flat = np.ravel(tensor.read())
    return lambda start, stop: flat[start:stop]
