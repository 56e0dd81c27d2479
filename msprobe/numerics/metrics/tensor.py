"""Differences of two whole tensors.

With n the target and b the golden values, flattened, in float64 (``relative_max`` of integers is exact):

    Cosine                      n.b / (|n| |b|); 1 if both are zero, Nan if one is; rounded to 6 digits above 0.9999
    EucDist                     |n - b|, data units
    MaxAbsErr                   max |n_i - b_i|, data units
    MaxRelativeErr              max r_i with r_i = |(n_i - b_i) / b_i| in at least float32; where b_i is 0 the machine
                                epsilon of that type is added to both
    One, Five Thousandth(s)     share of r_i below 0.001, 0.005

Axes of length 1 are ignored. NaN and Inf must stand at the same places with the same sign; there they count as equal,
and as 0 in the formulas, unless the tensor is one element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.metrics.tensor_cells import TENSOR_METRICS, UNSUPPORTED, in_all_columns

if TYPE_CHECKING:
    from msprobe.native.loader import Kernel
    from msprobe.numerics.metrics.elements import ElementDifference

Array = NDArray[Any]

_SAME: tuple[Cell, ...] = (1.0, 0.0, 0.0, 0.0, 1.0, 1.0)
_CHUNK = 1 << 16
_CODES = {"float16": 9, "float32": 11, "float64": 12}  # of the compiled kernel


@dataclass(frozen=True, slots=True)
class TensorDifference:
    """The cells of ``TENSOR_METRICS``, and what a verdict needs.

    ``relative_norm`` is |n-b| / max(|n|, |b|), ``relative_max`` is max|n_i-b_i| / max(|n_i|, |b_i|): both
    dimensionless, NaN when they could not be computed. ``norm`` and ``largest`` are their denominators, in data units.
    ``problem`` names why, ``unread`` says that a file is missing or damaged, ``non_finite`` is a NaN or Inf that only
    one side has. ``elements`` and ``custom`` (cells of further metrics, with ``notes`` on those that failed) are there
    when asked for. ``calibrated`` says that other tensors than the recorded ones were compared: products with a matrix.
    ``other_file`` says in words that a file has another shape or dtype than its record, ``contradicts`` that the files
    differ although their records are equal in every statistic, that of the order included: one file is not what was
    recorded.
    """

    cells: tuple[Cell, ...]
    relative_norm: float = math.nan
    relative_max: float = math.nan
    norm: float = 0.0
    largest: float = 0.0
    problem: str = ""
    unread: bool = False
    non_finite: bool = False
    elements: ElementDifference | None = None
    custom: tuple[Cell, ...] = ()
    notes: tuple[str, ...] = ()
    calibrated: bool = False
    other_file: str = ""
    contradicts: bool = False


def tensor_difference(target: Array, golden: Array) -> TensorDifference:
    """All metrics of a pair of arrays of any real, complex, integer or boolean type."""
    n, b = np.squeeze(target), np.squeeze(golden)
    if n.size == 0:
        if n.shape == b.shape:
            return TensorDifference(UNSUPPORTED, 0.0, 0.0)
        return TensorDifference(UNSUPPORTED, problem="the target tensor is empty")
    if n.shape != b.shape:
        return TensorDifference(in_all_columns("shape unmatched"), problem="the shapes differ")
    same_type = n.dtype == b.dtype
    n, b = np.ravel(n), np.ravel(b)
    kernel, code = _kernel(), _CODES.get(n.dtype.name)
    if kernel is not None and code is not None and same_type and n.size > 1:
        return _compiled(kernel, n, b, code)
    if same_type and n.dtype.kind in "iu" and n.dtype.itemsize == 8:
        return _of_long_integers(n, b)
    if n.dtype.kind not in "fc":
        n, b = _widened(n), _widened(b)
    return _of_floats(n, b, same_type)


def _of_long_integers(n: Array, b: Array) -> TensorDifference:
    """Return the metrics of float64; ``relative_max`` is that of the integers themselves."""
    difference = _of_floats(_widened(n), _widened(b), same_type=True)
    from msprobe.numerics.metrics.elements import farthest  # not for tables without whole tensors

    apart = farthest(n, b)
    if not apart or difference.relative_max:
        return difference
    largest = max(abs(int(value)) for side in (n, b) for value in (side.max(), side.min()))
    return replace(difference, relative_max=apart / largest)


def _of_floats(n: Array, b: Array, same_type: bool) -> TensorDifference:
    if n.size == 1 and not (np.isfinite(n).all() and np.isfinite(b).all()):
        return _odd_scalar(n, b)
    finite = _finite_pair(n, b)
    if finite is None:
        return _odd(in_all_columns("N/A"))
    n, b = finite
    if n.size > 1 and same_type and n.tobytes() == b.tobytes():
        return TensorDifference(_SAME, 0.0, 0.0)
    return _difference(n, b)


@cache
def _kernel() -> Kernel | None:
    from msprobe.native.loader import load  # only where whole tensors are compared

    return load()


def _compiled(kernel: Kernel, n: Array, b: Array, code: int) -> TensorDifference:
    """Return the difference of two flat arrays of one float type, by one pass of compiled code."""
    n, b = np.ascontiguousarray(n), np.ascontiguousarray(b)
    sums = kernel.difference(n.ctypes.data, b.ctypes.data, n.size, code)
    if sums is None:
        return _odd(in_all_columns("N/A"))
    if isinstance(sums, int):
        return TensorDifference(_SAME, 0.0, 0.0)
    return _concluded(_Sums(*sums), n.size)


def _odd(cells: tuple[Cell, ...]) -> TensorDifference:
    return TensorDifference(cells, problem="NaN or Inf stand at different places", non_finite=True)


def _odd_scalar(n: Array, b: Array) -> TensorDifference:
    """One element, which is not finite on some side: the cells are what the formulas give."""
    with np.errstate(invalid="ignore"):
        cells = _scalar_cells(_twelve(float(np.abs(n - b)[0])), _twelve(float(_relative(n, b)[0])))
    return TensorDifference(cells, 0.0, 0.0) if np.array_equal(n, b, equal_nan=True) else _odd(cells)


def _widened(values: Array) -> Array:
    return values.astype(np.float64 if values.dtype.itemsize > 2 else np.float32)


def _finite_pair(n: Array, b: Array) -> tuple[Array, Array] | None:
    """Both arrays with agreeing NaN and Inf set to 0, or None where they disagree in place, kind or sign."""
    odd_n, odd_b = ~np.isfinite(n), ~np.isfinite(b)
    if not odd_n.any() and not odd_b.any():
        return n, b
    if not np.array_equal(odd_n, odd_b) or not np.array_equal(n[odd_n], b[odd_b], equal_nan=True):
        return None
    return np.where(odd_n, n.dtype.type(0), n), np.where(odd_b, b.dtype.type(0), b)


@dataclass(slots=True)
class _Sums:
    dot: float = 0.0
    square_n: float = 0.0
    square_b: float = 0.0
    square_difference: float = 0.0
    max_difference: float = 0.0
    max_value: float = 0.0
    max_relative: float = 0.0
    below_one: int = 0
    below_five: int = 0


def _difference(n: Array, b: Array) -> TensorDifference:
    sums = _Sums()
    for start in range(0, n.size, _CHUNK):
        _add_chunk(sums, n[start : start + _CHUNK], b[start : start + _CHUNK])
    return _concluded(sums, n.size)


def _concluded(sums: _Sums, size: int) -> TensorDifference:
    norm_n, norm_b = math.sqrt(sums.square_n), math.sqrt(sums.square_b)
    euclid = math.sqrt(sums.square_difference)
    largest = max(norm_n, norm_b)
    max_abs, max_relative = _twelve(sums.max_difference), _twelve(sums.max_relative)
    if size == 1:
        cells = _scalar_cells(max_abs, max_relative)
    else:
        ratios = (sums.below_one / size, sums.below_five / size)
        cells = (_cosine(sums.dot, norm_n, norm_b), euclid, max_abs, max_relative, *ratios)
    return TensorDifference(
        cells,
        relative_norm=euclid / largest if largest else 0.0,
        relative_max=sums.max_difference / sums.max_value if sums.max_value else 0.0,
        norm=largest,
        largest=sums.max_value,
    )


def _add_chunk(sums: _Sums, n: Array, b: Array) -> None:
    wide = np.complex128 if "c" in (n.dtype.kind, b.dtype.kind) else np.float64
    wide_n: Array = n.astype(wide)
    wide_b: Array = b.astype(wide)
    difference = wide_n - wide_b
    size = np.abs(difference)
    sums.dot += float(np.vdot(wide_n, wide_b).real)
    sums.square_n += float(np.vdot(wide_n, wide_n).real)
    sums.square_b += float(np.vdot(wide_b, wide_b).real)
    sums.square_difference += float(np.dot(size, size))
    sums.max_difference = max(sums.max_difference, float(size.max()))
    sums.max_value = max(sums.max_value, float(np.abs(wide_n).max()), float(np.abs(wide_b).max()))
    relative = _relative(n, b)
    sums.max_relative = max(sums.max_relative, float(relative.max()))
    sums.below_one += int(np.count_nonzero(relative < 0.001))
    sums.below_five += int(np.count_nonzero(relative < 0.005))


def _relative(n: Array, b: Array) -> Array:
    kind = np.result_type(n.dtype, b.dtype, np.float32)
    n, b = n.astype(kind, copy=False), b.astype(kind, copy=False)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        zero = b == 0
        if zero.any():
            epsilon = np.finfo(kind).eps
            n, b = np.where(zero, n + epsilon, n), np.where(zero, b + epsilon, b)
        return np.asarray(np.abs((n - b) / b))


def _cosine(dot: float, norm_n: float, norm_b: float) -> Cell:
    tiny = np.finfo(np.float64).eps
    if norm_n <= tiny and norm_b <= tiny:
        return 1.0
    if norm_n <= tiny or norm_b <= tiny:
        return "Nan"
    cosine = dot / (norm_n * norm_b)
    return round(min(cosine, 1.0), 6) if cosine > 0.9999 else _twelve(cosine)


def _scalar_cells(max_abs: Cell, max_relative: Cell) -> tuple[Cell, ...]:
    """Return the cells of a pair of single elements, for which only two of the metrics mean anything."""
    cells = {"MaxAbsErr": max_abs, "MaxRelativeErr": max_relative}
    return tuple(cells.get(title, "unsupported") for title in TENSOR_METRICS)


def _twelve(value: float) -> Cell:
    return "Nan" if math.isnan(value) else float(f"{value:.12f}")
