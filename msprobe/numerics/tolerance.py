"""How much two correct computations of the same thing may differ.

Every difference is judged relative to the scale of its own tensor, so a mean close to zero never alarms. With u
the unit
round-off of the dtype, n the number of elements and k the length of the reduction behind each element:

    element   c * (u + u_acc * sqrt(k))            one rounding of the result, a random walk in the accumulator
    mean, norm   element / sqrt(n) + floor         independent element errors average out; the floor is the error of
                                                   the statistic itself

u_acc is that of float32 or better, in which every framework accumulates. ``STRICT`` holds where all inputs are equal,
``LOOSE`` where they already carry rounding noise.
Source of the model: N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., sections 3.1 and 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BITS = {
    "float64": 53,
    "complex128": 53,
    "float32": 24,
    "complex64": 24,
    "float16": 11,
    "bfloat16": 8,
    "float8_e4m3fn": 4,
    "float8_e4m3": 4,
    "float8_e5m2": 3,
}
_FLOAT32 = 2.0**-24
_LONGEST = 2.0**16
NOTHING_ALLOWED = 1e-300  # in place of 0, by which nothing can be divided


@dataclass(frozen=True, slots=True)
class Factors:
    """``element``: roundings allowed per element; ``floor``: roundings in float32 allowed in a statistic."""

    element: float
    floor: float


STRICT = Factors(element=6.0, floor=8.0)
LOOSE = Factors(element=32.0, floor=64.0)


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Allowed differences per leaf, dimensionless: of an element relative to the largest, of mean and norm to the
    norm."""

    element: Floats
    average: Floats


def unit_roundoff(dtype: str) -> float:
    """The unit round-off of a dtype by any framework's spelling; 0 for integers and booleans."""
    bits = _BITS.get(dtype.rpartition(".")[2].lower())
    return 2.0**-bits if bits else 0.0


def tolerances(roundoff: Floats, numel: Floats, reduction: Floats, factors: Factors) -> Tolerances:
    """Tolerances of many leaves at once; all arguments have one value per leaf.

    Integers (``roundoff`` 0) must be equal up to the rounding of their recorded statistics.
    """
    accumulator = np.minimum(roundoff, _FLOAT32)
    walk = np.sqrt(np.clip(reduction, 1.0, _LONGEST))
    element = factors.element * (roundoff + accumulator * walk)
    floor = factors.floor * np.where(roundoff > 0.0, np.maximum(accumulator, 2.0**-53), _FLOAT32 / 16)
    average = element / np.sqrt(np.maximum(numel, 1.0)) + floor
    return Tolerances(element + NOTHING_ALLOWED, average + NOTHING_ALLOWED)


def of_single_elements(mean: Floats, norm: Floats, numel: Floats) -> Floats:
    """How far single elements may be apart where only mean and norm are seen, all relative to the scale of the tensor.

    Differences d of n independent elements move mean and norm by about d / sqrt(n); the largest and smallest element,
    which statistics also show, need not be among those that differ. What rounding of the statistics explains is left
    out.
    """
    beyond = np.maximum(np.maximum(mean, norm) - 2.0 * _FLOAT32, 0.0)
    return np.asarray(beyond * np.sqrt(np.maximum(numel, 1.0)))


def rounded_to(values: Floats, roundoff: Floats) -> NDArray[Any]:
    """True where a finite value fits the precision of its dtype exactly: its statistic was itself rounded to it."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        mantissa, _ = np.frexp(values)
        scaled = mantissa / np.where(roundoff > 0.0, roundoff, 1.0)
        return np.asarray((roundoff > _FLOAT32) & (scaled == np.rint(scaled)))
