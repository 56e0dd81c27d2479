"""A number of a dump as arithmetic needs it: a damaged dump may hold anything in its place."""

from __future__ import annotations

import math
from typing import Any, TypeVar

T = TypeVar("T")


def as_float(value: Any) -> float:
    """The recorded number in data units; NaN for what is none, infinite for an integer that no float can hold."""
    if not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def bounded(value: T) -> T | float:
    """The value as it is; infinite where it is an integer that no float can hold."""
    return as_float(value) if type(value) is int and math.isinf(as_float(value)) else value
