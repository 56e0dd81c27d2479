"""The verdict on two arrays that stand for the same value, without a call around them: saved values, kernel files.

Their inputs are not known, so both may carry rounding noise already: the tolerance is that of ``LOOSE``, with the
longest sum that counts behind each element (``numerics/tolerance.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.numerics.metrics.tensor import TensorDifference, tensor_difference
from msprobe.numerics.tolerance import LOOSE, tolerances, unit_roundoff

_SUM = 2.0**16


@dataclass(frozen=True, slots=True)
class ArrayVerdict:
    """Whether two arrays agree.

    Attributes:
        level: ``pass``, or ``error``.
        reason: why not, in words; empty where they agree.
        difference: the metrics.
        times: the largest difference in units of its tolerance; NaN where it could not be measured.
        tolerance: how far an element may differ, relative to the largest one; NaN where that was not asked.
        allowed: the same in the unit of the data.
    """

    level: str
    reason: str
    difference: TensorDifference
    times: float
    tolerance: float = np.nan
    allowed: float = np.nan


def judge_arrays(target: NDArray[Any], golden: NDArray[Any], dtype: str, golden_dtype: str = "") -> ArrayVerdict:
    """Judge two arrays; what cannot be compared is an error.

    Args:
        target, golden: elements of any real, complex, integer or boolean type.
        dtype, golden_dtype: the names of the types in which both were computed; the coarser one decides. The second is
            the first where it is empty.

    Example:
        >>> judge_arrays(np.ones(3), np.ones(3), "float32").level
        'pass'
    """
    if target.shape != golden.shape:
        difference = TensorDifference((), problem="the shapes differ")
        return ArrayVerdict("error", f"shape {list(target.shape)} against {list(golden.shape)}", difference, np.nan)
    difference = tensor_difference(target, golden)
    if difference.non_finite:
        return ArrayVerdict("error", "NaN or infinity on one side only", difference, np.nan)
    if target.size == 0 or (reason := _equal_or_odd(target, golden, difference)) == "":
        return ArrayVerdict("pass", "", difference, 0.0)
    if reason is not None:
        return ArrayVerdict("error", reason, difference, np.nan)
    tolerance = _tolerance(target.size, max(unit_roundoff(dtype), unit_roundoff(golden_dtype or dtype)))
    largest, scale = _largest(target, golden)
    times = max(difference.relative_norm / tolerance, largest / tolerance)
    level, reason = "pass", ""
    if not times <= 1.0:
        level, reason = "error", f"differs by {times:.3g} times the tolerance of {_coarser(dtype, golden_dtype)}"
    return ArrayVerdict(level, reason, difference, times, tolerance, tolerance * scale)


class Allowed(NamedTuple):
    """How far an array may be from the right one, in the unit of the data: each element, and the Euclidean norm."""

    element: float
    norm: float


def allowed_difference(golden: NDArray[Any], dtype: str) -> Allowed:
    """Return how far an array may be from this right one, as ``judge_arrays`` decides; 0 for whole numbers.

    Args:
        golden: elements of any type.
        dtype: the name of the type in which they were computed.
    """
    if golden.dtype.kind not in "fc" or not golden.size:
        return Allowed(0.0, 0.0)
    tolerance = _tolerance(golden.size, unit_roundoff(dtype))
    wide = golden[np.isfinite(golden)].astype(np.complex128)
    return Allowed(tolerance * _largest(golden, golden)[1], tolerance * float(np.linalg.norm(wide)))


def _tolerance(size: int, roundoff: float) -> float:
    limits = tolerances(np.array([roundoff]), np.array([float(size)]), np.array([_SUM]), LOOSE)
    return float(limits.element[0])


def _coarser(dtype: str, golden_dtype: str) -> str:
    return max(dtype, golden_dtype or dtype, key=unit_roundoff)


def _equal_or_odd(target: NDArray[Any], golden: NDArray[Any], difference: TensorDifference) -> str | None:
    """Return "" for equal elements (NaN equals NaN), a reason where no number says how far they differ, else None."""
    if np.array_equal(target, golden, equal_nan=target.dtype.kind in "fc" and golden.dtype.kind in "fc"):
        return ""
    if target.dtype.kind in "biu" and golden.dtype.kind in "biu":
        return f"{int(np.count_nonzero(target != golden))} of {target.size} elements differ"
    finite = np.isfinite(target), np.isfinite(golden)
    if not np.array_equal(*finite):
        return "NaN or infinity on one side only"
    if not np.array_equal(target[~finite[0]], golden[~finite[1]], equal_nan=True):
        return "other NaN or infinities"
    return None


def _largest(target: NDArray[Any], golden: NDArray[Any]) -> tuple[float, float]:
    """Return the largest difference of finite elements, relative to the largest element, and that element."""
    wide = np.complex128 if "c" in (target.dtype.kind, golden.dtype.kind) else np.float64
    finite = np.isfinite(target)
    n, b = target[finite].astype(wide), golden[finite].astype(wide)
    scale = max(float(np.abs(n).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    return (float(np.abs(n - b).max(initial=0.0)) / scale if scale else 0.0), scale
