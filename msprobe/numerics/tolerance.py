"""How much two correct computations of the same thing may differ.

Every difference is judged relative to the scale of its own tensor, so a mean close to zero is no cause of alarm. With u
the unit round-off of the dtype, n the number of elements and k the length of the reduction behind each element:

    element   c * (u + u_acc * sqrt(k))            one rounding of the result, a random walk in the accumulator
    mean, norm   element / sqrt(n) + floor         independent element errors average out; the floor is the error of
                                                   the statistic itself

The tolerance of an element is never more than half the largest element (u of an 8-bit float is 1/16 to 1/2). u_acc is
the unit round-off of the accumulator, which is float32 or better in every framework. ``STRICT`` is for results
of equal inputs, ``LOOSE`` for results of inputs that carry rounding noise already.
Source of the model: N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., sections 3.1 and 4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import find_dtype

Floats = NDArray[np.float64]

FLOAT32_ROUNDOFF = 2.0**-24
_LONGEST = 2.0**16
_LARGEST = 0.5  # of the largest element: no rounding is as large, however few digits a dtype has
NOTHING_ALLOWED = 1e-300  # in place of 0, by which nothing can be divided


@dataclass(frozen=True, slots=True)
class Factors:
    """How many roundings are allowed.

    Attributes:
        element: roundings of an element.
        floor: roundings in float32 of a statistic.
    """

    element: float
    floor: float


STRICT = Factors(element=6.0, floor=8.0)
LOOSE = Factors(element=32.0, floor=64.0)


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Allowed differences, one value per leaf, dimensionless.

    Attributes:
        element: the difference of an element relative to the largest element.
        average: the difference of mean or norm, relative to the root mean square or norm.
    """

    element: Floats
    average: Floats


def unit_roundoff(dtype: str) -> float:
    """Return the unit round-off of a dtype, ``2 ** -digits``, by the name that any framework prints.

    It is 0 for integers and booleans, and for names that ``find_dtype`` does not know.
    """
    known = find_dtype(dtype)
    return 0.0 if known is None else known.unit_roundoff


def tolerances(roundoff: Floats, numel: Floats, reduction: Floats, factors: Factors) -> Tolerances:
    """Return the tolerances of many leaves at once.

    Args:
        roundoff: unit round-off of the dtype, one value per leaf. Integers (0) must be equal up to the rounding of
            their recorded statistics.
        numel: number of elements, one value per leaf.
        reduction: number of terms in the sum behind each element, one value per leaf.
        factors: how many roundings are allowed.
    """
    accumulator = np.minimum(roundoff, FLOAT32_ROUNDOFF)
    walk = np.sqrt(np.clip(reduction, 1.0, _LONGEST))
    element = np.minimum(factors.element * (roundoff + accumulator * walk), _LARGEST)
    floor = factors.floor * np.where(roundoff > 0.0, np.maximum(accumulator, 2.0**-53), FLOAT32_ROUNDOFF / 16)
    average = element / np.sqrt(np.maximum(numel, 1.0)) + floor
    return Tolerances(element + NOTHING_ALLOWED, average + NOTHING_ALLOWED)


def of_single_elements(mean: Floats, norm: Floats, numel: Floats) -> Floats:
    """Return how far single elements may be apart when only statistics are known.

    Differences d of n independent elements change mean and norm by about d / sqrt(n). Max and Min need not be among the
    elements that differ. Differences within the rounding of the statistics count as none.

    Args:
        mean: difference of the means, relative to the scale of the tensor, one value per leaf.
        norm: difference of the norms, in the same way.
        numel: number of elements, one value per leaf.

    Returns:
        the difference of single elements relative to the scale of the tensor, one value per leaf.
    """
    beyond = np.maximum(np.maximum(mean, norm) - 2.0 * FLOAT32_ROUNDOFF, 0.0)
    return np.asarray(beyond * np.sqrt(np.maximum(numel, 1.0)))


def with_digits(value: float, roundoff: float) -> float:
    """Return a statistic with the digits that it is recorded with: those of a 16-bit dtype, else all of them.

    Args:
        value: the statistic, in the unit of the data.
        roundoff: the unit round-off of the dtype.
    """
    if roundoff <= FLOAT32_ROUNDOFF or not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa / roundoff) * roundoff, exponent)


def rounded_to(values: Floats, roundoff: Floats) -> NDArray[Any]:
    """Return True where a finite value has no more digits than its dtype: the statistic was rounded to that dtype."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        mantissa, _ = np.frexp(values)
        scaled = mantissa / np.where(roundoff > 0.0, roundoff, 1.0)
        return np.asarray((roundoff > FLOAT32_ROUNDOFF) & (scaled == np.rint(scaled)))
