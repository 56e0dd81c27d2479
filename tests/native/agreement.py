"""How close two statistics of the same data must be."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import FLOAT32, DType
from msprobe.core.tensors.statistics import TensorStats


def one_ulp(value: float, dtype: DType) -> float:
    """Distance of the numbers around `value` in the dtype its statistics are rounded to (float64 for integers)."""
    if not dtype.digits or dtype.digits == 53:
        return math.ulp(value)
    rounded_to = FLOAT32 if dtype.itemsize == 1 else dtype
    return max(math.ldexp(1.0, math.frexp(value)[1] - rounded_to.digits), rounded_to.finest)


def assert_agree(ours: TensorStats, other: TensorStats, dtype: DType, values: NDArray[np.float64]) -> None:
    """Extremes equal; mean and norm within one ulp of the dtype, beside the rounding of sums in double (2^-48).

    Magnitudes of complex128 may differ by two ulp: torch and the C library take them by other hypots, of which neither
    rounds the last bit right, most often among subnormal numbers. Narrower ones are computed in double and rounded.
    """
    extremes = [ours.max, ours.min], [other.max, other.min]
    if dtype.name == "complex128":
        np.testing.assert_allclose(*extremes, rtol=2 * 2.0**-52, atol=2 * 2.0**-1074)
    else:
        np.testing.assert_array_equal(*extremes)
    assert (type(ours.max), type(ours.min)) == (type(other.max), type(other.min))
    with np.errstate(all="ignore"):
        magnitude = float(np.mean(np.abs(values)))
    for mine, theirs, summed in ((ours.mean, other.mean, magnitude), (ours.norm, other.norm, other.norm)):
        if mine is None or theirs is None or summed is None or not math.isfinite(theirs):
            np.testing.assert_array_equal([mine], [theirs])
        else:
            assert abs(mine - theirs) <= 1.01 * one_ulp(theirs, dtype) + summed * 2.0**-48, (mine, theirs)
