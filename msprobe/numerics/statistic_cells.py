"""The verdict on many statistics that stand for the same tensors in two runs, when nothing but the statistics is known.

The tensors carry rounding noise already, and neither their size nor the sums behind them are known: the tolerance is
that of ``LOOSE`` with the longest sum that counts behind each element, as for two arrays (``array_verdict.py``).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from msprobe.numerics.tolerance import LOOSE, tolerances, unit_roundoff

Floats = NDArray[np.float32]
_SUM = 2.0**16


@functools.cache
def relative_tolerance(dtype: str = "float32") -> float:
    """Return how far statistics of a tensor of this dtype may be apart, relative to the scale of the tensor."""
    limits = tolerances(np.array([unit_roundoff(dtype)]), np.ones(1), np.array([_SUM]), LOOSE)
    return float(limits.element[0])


def times_tolerance(
    target: Floats, golden: Floats, scale: Floats, resolution: float = 0.0, dtype: str = "float32"
) -> Floats:
    """Return the difference of each cell in units of its tolerance: up to 1 is rounding.

    Args:
        target, golden: statistics of the same kind, of any one shape; float32.
        scale: the size of the elements of each tensor, in the unit of the data; not finite where it is not known.
        resolution: how far apart two neighbouring numbers of the files are, where they were rounded to digits.
        dtype: the dtype of the tensors.

    Returns:
        0 where both are NaN or the same infinity, infinity where one side alone is not finite; what is missing on a
        side is for the caller to tell.
    """
    with np.errstate(all="ignore"):  # in place: new memory costs more than the arithmetic
        times = target - golden  # float32: neighbours are subtracted without rounding
        np.abs(times, out=times)
        allowed = np.abs(golden) if scale is golden else np.where(np.isfinite(scale), np.abs(scale), np.abs(golden))
        allowed *= np.float32(relative_tolerance(dtype))
        allowed += np.float32(resolution)
        np.maximum(allowed, np.finfo(np.float32).tiny, out=allowed)
        odd = None if np.isfinite(times.max(initial=0.0)) else ~np.isfinite(times)
        times /= allowed
        if odd is not None:
            one, other = target[odd], golden[odd]
            times[odd] = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.inf)
    return times
