"""Where and how far two whole tensors differ, element by element.

first    the first element, in row-major order, that differs in value (NaN equals NaN)
worst    the element with the largest |n_i - b_i|; one that is NaN or infinite on one side comes before all others
ulps     max of the steps between neighbouring numbers of the dtype that lie between n_i and b_i: both mapped to
         integers in the order of the floats, then subtracted (B. Dawson, "Comparing floating point numbers", 2012);
         0 and -0 are one number; of integers |n_i - b_i|; of complex numbers the larger of both parts
close    all |n_i - b_i| <= atol + rtol |b_i|, with the tolerances torch.testing.assert_close has for the dtype
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import find_dtype, float8_values
from msprobe.native.loader import load

Array = NDArray[Any]

_CHUNK = 1 << 16
_CODES = {"float16": 9, "float32": 11, "float64": 12}  # of the compiled kernel
_CLOSE = {  # rtol, atol: of numbers with so many binary digits
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}
_SMALL = "float8"
_INTEGERS: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """``first`` and ``worst`` are indices into the tensor's shape, None where nothing differs; ``target`` and
    ``golden`` are the values at ``worst``. ``ulps`` is None where the dtype has no count of steps, or where a value is
    NaN or infinite on one side only.
    """

    first: tuple[int, ...] | None
    worst: tuple[int, ...] | None
    target: Any
    golden: Any
    ulps: int | None
    close: bool


SAME = ElementDifference(None, None, None, None, 0, True)


def element_difference(target: Array, golden: Array, dtype: str) -> ElementDifference:
    """Compare two arrays of equal shape. ``dtype`` is what the target recorded: arrays may hold it widened.

    Raises:
        ValueError: the shapes differ.
    """
    if target.shape != golden.shape:
        raise ValueError(f"shapes {target.shape} and {golden.shape} differ")
    name = dtype.rpartition(".")[2].lower() or target.dtype.name
    n, b = np.ravel(target), np.ravel(golden)
    close = _tolerances(name, golden.dtype.name)
    positions = _compiled(n, b, name, close) or _searched(n, b, name, close)
    first, worst = positions.first, positions.worst
    if first is None or worst is None:
        return SAME
    first_index, worst_index = (tuple(map(int, np.unravel_index(flat, target.shape))) for flat in (first, worst))
    return ElementDifference(
        first_index, worst_index, n[worst].item(), b[worst].item(), positions.ulps, positions.close
    )


@dataclass(slots=True)
class _Positions:
    """Flat positions of the first and the worst difference, and how far apart the elements are."""

    first: int | None
    worst: int | None
    ulps: int | None
    close: bool


def _compiled(n: Array, b: Array, dtype: str, close: tuple[float, float]) -> _Positions | None:
    """Return what one pass of compiled code says; None where there is none for this type."""
    kernel, code = load(), _CODES.get(n.dtype.name)
    if kernel is None or code is None or n.dtype != b.dtype or _SMALL in dtype:
        return None
    n, b = np.ascontiguousarray(n), np.ascontiguousarray(b)
    first, worst, steps, far, odd = kernel.elements(n.ctypes.data, b.ctypes.data, n.size, code, *close)
    if first < 0:
        return _Positions(None, None, 0, True)
    if dtype == "bfloat16" and n.dtype.itemsize == 4:
        steps >>= 16
    # Values that differ at all have a worst place; 0 and -0 do not differ.
    return _Positions(first, first if worst < 0 else worst, None if odd else steps, not far and not odd)


def _searched(n: Array, b: Array, dtype: str, close: tuple[float, float]) -> _Positions:
    search = _Search(dtype, close)
    for start in range(0, n.size, _CHUNK):
        search.add(start, n[start : start + _CHUNK], b[start : start + _CHUNK])
    return _Positions(search.first, search.worst, search.ulps, search.close)


def _tolerances(*names: str) -> tuple[float, float]:
    """Return the wider of the tolerances of both sides; integers and booleans must be equal."""
    return max(_CLOSE.get(name, (0.0, 0.0)) for name in names)


class _Search:
    """Looks for the first and the worst difference, one chunk of elements after the other."""

    def __init__(self, dtype: str, close: tuple[float, float]) -> None:
        self.first: int | None = None
        self.worst: int | None = None
        self.ulps: int | None = 0
        self.close = True
        self._largest = -1.0
        self._odd = False
        self._dtype, (self._rtol, self._atol) = dtype, close

    def add(self, start: int, n: Array, b: Array) -> None:
        """Add the elements from position ``start`` on: target and golden, one-dimensional."""
        different = n != b
        if n.dtype.kind in "fc" and b.dtype.kind in "fc":
            different &= ~(np.isnan(n) & np.isnan(b))
        if not different.any():
            return
        if self.first is None:
            self.first = start + int(different.argmax())
        wide = np.complex128 if "c" in (n.dtype.kind, b.dtype.kind) else np.float64
        odd = different & ~(np.isfinite(n) & np.isfinite(b))
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.where(different & ~odd, _apart(n, b, wide), 0.0)
            close = (apart <= self._atol + self._rtol * np.abs(b.astype(wide))) & ~odd
        self.close = self.close and bool(close[different].all())
        self._note_worst(start, apart, odd)
        steps = None if self._odd else _steps(n[different], b[different], self._dtype)
        self.ulps = None if steps is None or self.ulps is None else max(self.ulps, steps)

    def _note_worst(self, start: int, apart: Array, odd: Array) -> None:
        if self._odd:
            return
        if odd.any():
            self._odd, self.worst = True, start + int(odd.argmax())
            return
        at = int(apart.argmax())
        if apart[at] > self._largest:
            self._largest, self.worst = float(apart[at]), start + at


def _steps(n: Array, b: Array, dtype: str) -> int | None:
    """Return the largest number of steps between two elements; None where a dtype has no steps."""
    if n.dtype != b.dtype:
        return None
    if n.dtype.kind == "c":
        if dtype == "complex32" and n.dtype.name == "complex64":  # the parts are widened float16
            left, right = (np.ascontiguousarray(values).view(np.float32).astype(np.float16) for values in (n, b))
            return _steps(left, right, "float16")
        parts = (_steps(n.real, b.real, dtype), _steps(n.imag, b.imag, dtype))
        return None if None in parts else max(part for part in parts if part is not None)
    if n.dtype.kind in "biu":
        return farthest(n, b) if n.dtype.kind != "b" else 1
    if _SMALL in dtype:
        return _steps_of_small(n, b, dtype)
    if n.dtype.itemsize not in _INTEGERS:
        return None
    shift = 16 if dtype == "bfloat16" and n.dtype.itemsize == 4 else 0
    return farthest(ordered(n), ordered(b)) >> shift


def _steps_of_small(n: Array, b: Array, dtype: str) -> int | None:
    """Return the steps between widened 8-bit floats, counted among all numbers of the dtype."""
    known = find_dtype(dtype)
    if known is None:
        return None
    numbers = np.unique([value for value in float8_values(known) if math.isfinite(value)])
    left, right = np.searchsorted(numbers, n), np.searchsorted(numbers, b)
    for values, places in ((n, left), (b, right)):
        if not (numbers[np.minimum(places, numbers.size - 1)] == values).all():
            return None  # NaN or infinite on one side, or no number of this dtype
    return farthest(left, right)


def _apart(n: Array, b: Array, wide: type[Any]) -> Array:
    """Return |n_i - b_i|; for integers the exact distance, rounded once."""
    if n.dtype == b.dtype and n.dtype.kind in "iu":
        return _distances(n, b).astype(wide)
    return np.asarray(np.abs(n.astype(wide) - b.astype(wide)))


def farthest(left: Array, right: Array) -> int:
    """Return max |left - right| of integers of one type and any size, without overflow."""
    return int(_distances(left, right).max(initial=0))


def _distances(left: Array, right: Array) -> Array:
    unsigned = np.dtype(f"u{left.dtype.itemsize}")
    low, high = np.minimum(left, right), np.maximum(left, right)
    return np.asarray(high.view(unsigned) - low.view(unsigned))


def ordered(values: Array) -> Array:
    """Return integers in the order of the floats: the bits of positive ones, mirrored bits of negative ones.

    ``values`` are floats, or their bits.
    """
    kind = _INTEGERS[values.dtype.itemsize]
    bits = np.ascontiguousarray(values).view(kind)
    lowest = np.iinfo(kind).min
    with np.errstate(over="ignore"):
        return np.where(bits < 0, lowest - bits, bits)
