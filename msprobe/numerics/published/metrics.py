"""The published metrics of one result of a call against its golden result.

    small            |golden| <= SMALL of the dtype; both finite
    relative error   |result - golden| / (|golden| + eps of the dtype), over finite elements that are not small
    share of N       share of all elements whose relative error (|golden| + eps below) is less than 1 / N
    ulp              |result - golden| * 2 ** (mantissa bits - exponent of golden)

Source: the manual of the accuracy pre-check and its tables of thresholds; where release 26.2.0 computes otherwise,
``docs/compatibility/precheck.md`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import DType, DtypeKind

Array = NDArray[Any]
Floats = NDArray[np.float64]

SMALL: Mapping[str, float] = {"float16": 2.0**-10, "bfloat16": 2.0**-10}
"""Up to this size an element is judged by its absolute error; other dtypes have ``SMALL_OF_OTHERS``."""
SMALL_OF_OTHERS = 2.0**-20
SMALL_ERROR: Mapping[str, float] = {"float16": 2.0**-16, "bfloat16": 2.0**-16}
"""The absolute error that a small element may have."""
SMALL_ERROR_OF_OTHERS = 2.0**-30
RELATIVE_ERROR: Mapping[str, float] = {"float16": 2.0**-10, "bfloat16": 2.0**-8}
"""The relative error that other elements may have by the absolute standard."""
RELATIVE_ERROR_OF_OTHERS = 2.0**-20
_MANTISSA: Mapping[str, tuple[int, int]] = {"float16": (10, -14), "bfloat16": (7, -126), "float32": (23, -126)}
"""Stored bits of the mantissa, and the least exponent."""
_ULPS: Mapping[str, float] = {"float32": 32.0}
_ULPS_OF_OTHERS = 1.0
_EPS: Mapping[str, float] = {"float16": 2.0**-10, "bfloat16": 2.0**-8, "float32": 2.0**-23}
_EPS_OF_OTHERS = 2.0**-52


@dataclass(frozen=True, slots=True)
class PublishedMetrics:
    """What is written about one result. A metric that does not apply to its dtype is None."""

    cosine: float | None = None
    max_absolute_error: float | None = None
    share_100: float | None = None
    share_1000: float | None = None
    share_10000: float | None = None
    binary_error_rate: float | None = None
    error_balance: float | None = None
    rmse: float | None = None
    small_value_error_share: float | None = None
    max_relative_error: float | None = None
    mean_relative_error: float | None = None
    nonfinite_error_rate: float | None = None
    relative_error_rate: float | None = None
    absolute_error_rate: float | None = None
    max_ulp_error: float | None = None
    mean_ulp_error: float | None = None
    ulp_share_over_threshold: float | None = None


def measure(result: Array, golden: Array, dtype: DType) -> PublishedMetrics:
    """Return the metrics of a result.

    Args:
        result: the elements, of any shape; those of bfloat16 as float32.
        golden: the elements in the higher precision, of the same shape.
        dtype: the dtype of the result.
    """
    result, golden = np.ravel(result), np.ravel(golden)
    if not golden.size:
        return PublishedMetrics(binary_error_rate=0.0)
    if dtype.kind in (DtypeKind.BOOL, DtypeKind.INT):
        return PublishedMetrics(
            max_absolute_error=_largest_integer_error(result, golden),
            binary_error_rate=float(np.mean(result != golden)),
        )
    if dtype.kind is DtypeKind.COMPLEX:
        result, golden = (np.ascontiguousarray(each, np.complex128).view(np.float64) for each in (result, golden))
    with np.errstate(all="ignore"):
        return _of_floats(result.astype(np.float64), golden.astype(np.float64), dtype.name)


def _of_floats(result: Floats, golden: Floats, dtype: str) -> PublishedMetrics:
    same = (result == golden) | (np.isnan(result) & np.isnan(golden))
    error = np.where(same, 0.0, np.abs(result - golden))
    finite = np.isfinite(result) & np.isfinite(golden)
    small = finite & (np.abs(golden) <= SMALL.get(dtype, SMALL_OF_OTHERS))
    normal = finite & ~small
    relative = np.where(same, 0.0, error / (np.abs(golden) + _EPS.get(dtype, _EPS_OF_OTHERS)))
    of_normal = error[normal] / np.abs(golden[normal])
    ulps = _ulps(error, golden, dtype) if dtype in _MANTISSA else None
    allowed = SMALL_ERROR.get(dtype, SMALL_ERROR_OF_OTHERS)
    return PublishedMetrics(
        cosine=cosine(result, golden),
        max_absolute_error=_largest(error),
        share_100=float(np.mean(relative < 1e-2)),
        share_1000=float(np.mean(relative < 1e-3)),
        share_10000=float(np.mean(relative < 1e-4)),
        binary_error_rate=float(np.mean(~same)),
        error_balance=abs(int(np.sum(result > golden)) - int(np.sum(result < golden))) / golden.size,
        rmse=float(np.sqrt(np.mean(np.square(error[normal])))) if normal.any() else 0.0,
        small_value_error_share=_share(error[small] > allowed),
        max_relative_error=_largest(of_normal),
        mean_relative_error=float(np.mean(of_normal)) if of_normal.size else 0.0,
        nonfinite_error_rate=float(np.mean(~finite & ~same)),
        relative_error_rate=_share(of_normal > RELATIVE_ERROR.get(dtype, RELATIVE_ERROR_OF_OTHERS)),
        absolute_error_rate=_share(error[small] > allowed),
        max_ulp_error=None if ulps is None else _largest(ulps),
        mean_ulp_error=None if ulps is None else float(np.mean(ulps)),
        ulp_share_over_threshold=None if ulps is None else float(np.mean(ulps > _ULPS.get(dtype, _ULPS_OF_OTHERS))),
    )


def cosine(result: Floats, golden: Floats) -> float:
    """Return the cosine of two vectors: 1 where both are zero, NaN where one has an element that is not finite."""
    scales = [float(np.max(np.abs(each), initial=0.0)) for each in (result, golden)]
    if not any(scales):
        return 1.0
    if not all(scales):
        return 0.0
    left, right = result / scales[0], golden / scales[1]  # squares of large elements would overflow
    return float(left @ right / np.sqrt((left @ left) * (right @ right)))


def _ulps(error: Floats, golden: Floats, dtype: str) -> Floats:
    bits, least = _MANTISSA[dtype]
    _, exponent = np.frexp(golden)
    exponent = np.where(np.isfinite(golden) & (golden != 0.0), exponent - 1, 0)
    return np.asarray(error * np.exp2(bits - np.maximum(exponent, least).astype(np.float64)))


def _largest(values: Floats) -> float:
    """Return the largest value; NaN where one is NaN, 0 for none."""
    return float(np.max(values)) if values.size else 0.0


def _share(flags: NDArray[np.bool_]) -> float:
    return float(np.mean(flags)) if flags.size else 0.0


def _largest_integer_error(result: Array, golden: Array) -> float:
    wrong = np.flatnonzero(result != golden)[:_MOST]
    return float(max((abs(int(result[at]) - int(golden[at])) for at in wrong), default=0))


_MOST = 100_000
"""Integers that are subtracted exactly, in Python; 64-bit integers would wrap around in numpy."""
