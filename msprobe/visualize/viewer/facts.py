"""Facts about a node that are cheap to find in its stored text: dtypes, and the worst relative difference.

The text is searched, not parsed: a step of 50 000 nodes holds some hundred megabytes of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from msprobe.core.tensors.statistics import STATISTIC_NAMES

_DTYPE = re.compile(r'"dtype": ?"((?:[^"\\]|\\.)*)"')
_RELATIVE = re.compile(rf'"(?:{"|".join(STATISTIC_NAMES)})RelativeErr": ?"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Fact:
    """The facts of one node; ``error`` is a fraction (0.01 is one percent), None where no difference is stored."""

    dtypes: tuple[str, ...]
    error: float | None


def fact_of(text: str) -> Fact:
    """Return the facts in the stored values of a node; a difference that is no number counts as unknown."""
    dtypes = tuple(sorted({dtype for dtype in _DTYPE.findall(text) if dtype != "null"}))
    errors = [error for error in map(_fraction, _RELATIVE.findall(text)) if error is not None]
    return Fact(dtypes, max(errors, default=None))


def _fraction(shown: str) -> float | None:
    scale = 0.01 if shown.endswith("%") else 1.0
    try:
        value = abs(float(shown.rstrip("%"))) * scale
    except ValueError:
        return None
    return value if value < float("inf") else None
