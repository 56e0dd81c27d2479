"""A number of a dump as arithmetic needs it: a damaged dump may hold anything in its place."""

from __future__ import annotations

import math
from typing import Any, TypeVar

T = TypeVar("T")


def as_float(value: Any) -> float:
    """Return the number in data units: NaN where there is none, infinity for an integer too large for float64."""
    if not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def bounded(value: T) -> T | float:
    """Return the value as it is, or infinity for an integer too large for float64."""
    return as_float(value) if type(value) is int and math.isinf(as_float(value)) else value
