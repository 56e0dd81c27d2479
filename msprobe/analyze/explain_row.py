"""The figures behind a first divergence: tolerance, times tolerance, and the elements that differ."""

from __future__ import annotations

import math

from msprobe.compare.run import Comparison
from msprobe.compare.summary import FirstDivergence
from msprobe.numerics.verdict import Kind


def explained(found: FirstDivergence, comparison: Comparison, row: int) -> FirstDivergence:
    """The same divergence, with what is known about the row that shows it filled in."""
    judged = comparison.judged
    times = float(judged.times[row])
    if judged.kind[row] == Kind.VALUE and math.isfinite(times):
        found.tolerance, found.times_tolerance = float(judged.tolerance[row]), times
    difference = comparison.tensors[row] if comparison.tensors is not None else None
    elements = difference.elements if difference is not None else None
    if elements is not None and elements.first is not None and elements.worst is not None:
        found.first_index, found.worst_index = list(elements.first), list(elements.worst)
        found.worst_target, found.worst_golden = repr(elements.target), repr(elements.golden)
    return found
