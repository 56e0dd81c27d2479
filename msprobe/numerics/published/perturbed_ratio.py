"""The published verdict on a result and that of a perturbed call: their ratio, element by element.

    ratio      max over elements of max(|a| / |b|, |b| / |a|), both at least the smallest size
    consistent 1 / threshold <= ratio <= threshold

Elements of opposite sign whose product is larger than the square of that size are inconsistent in any case. Against the
CPU (``agrees_with_cpu``) differences count instead. Source: the manual of comparison without a golden run; a NaN is no
reason to call a result consistent here (``docs/compatibility/free_benchmark.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NOISE: Mapping[str, float] = {"bfloat16": 1e-4, "float16": 1e-6, "float32": 1e-8, "float64": 1e-16}
"""What is added to an element; elements up to its square root stay as they are."""
THRESHOLDS: Mapping[str, float] = {"float16": 1.002, "bfloat16": 1.004}
THRESHOLD_OF_OTHERS = 1.0002
SMALLEST_IN_BACKWARD = 1e-3
SIGN_FLIP = -1.0
"""Stands for elements of opposite sign."""
_CPU_TOLERANCES: Mapping[str, float] = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_CPU_TOLERANCE_OF_OTHERS = 2.0**-14
_CPU_MEAN_ERROR = 1e-4


def threshold_of(dtype: str, mode: str) -> float:
    """Return the largest ratio of a consistent result."""
    return 1.0 if mode == "no_change" else THRESHOLDS.get(dtype, THRESHOLD_OF_OTHERS)


def ratio_of(result: Array, perturbed: Array, dtype: str, *, backward: bool = False) -> float:
    """Return the ratio of two results of one shape; ``SIGN_FLIP`` for opposite signs, NaN where one has a NaN alone.

    Args:
        result, perturbed: the elements.
        dtype: of the result.
        backward: they are gradients.
    """
    smallest = SMALLEST_IN_BACKWARD if backward else float(np.sqrt(NOISE.get(dtype, NOISE["float32"])))
    own, other = np.ravel(result).astype(np.float64), np.ravel(perturbed).astype(np.float64)
    same = (own == other) | (np.isnan(own) & np.isnan(other))
    own, other = own[~same], other[~same]
    if not own.size:
        return 1.0
    with np.errstate(all="ignore"):
        if np.any(own * other < -smallest * smallest):
            return SIGN_FLIP
        sizes = np.maximum(np.abs(own), smallest), np.maximum(np.abs(other), smallest)
        return float(np.max(np.maximum(sizes[0] / sizes[1], sizes[1] / sizes[0])))


def is_consistent(ratio: float, threshold: float) -> bool:
    """Return whether a ratio is that of a consistent result; NaN is not."""
    return 1.0 / threshold <= ratio <= threshold


def agrees_with_cpu(result: Array, cpu: Array, dtype: str) -> bool:
    """Return whether a result is as near to that of the CPU as it has to be; one with a NaN or infinity there is."""
    own, golden = np.ravel(result).astype(np.float64), np.ravel(cpu).astype(np.float64)
    if not golden.size or not np.isfinite(golden).all():
        return True
    tolerance = _CPU_TOLERANCES.get(dtype, _CPU_TOLERANCE_OF_OTHERS)
    size, error = np.abs(golden), own - golden
    with np.errstate(all="ignore"):
        small, large = size < 1.0, size >= 1.0
        fits = np.all(np.abs(error[small]) <= tolerance) and np.all(np.abs(error[large]) / size[large] <= tolerance)
        return bool(fits and abs(float(np.mean(error / np.maximum(size, 1.0)))) <= _CPU_MEAN_ERROR)
