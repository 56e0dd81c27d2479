"""Functions that turn a small difference of their inputs into a larger one, relative to the size of the result.

``exp(x + d)`` is ``exp(x)`` times about ``1 + d``, and ``sin(x + d)`` differs from ``sin(x)`` by about ``d``: what
counts is the difference in units of the data, and not its share of the largest element. The phase 900 of a time
embedding, rounded to float32, is 5e-5 off; so is its sine. A mask of -65504 among the scores of a softmax hides a
difference of all others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from msprobe.compare.differences.row_facts import RowFacts
from msprobe.compare.records.entries import function_of
from msprobe.compare.records.leaves import as_float
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.numerics.verdict import Floats, Role

_PHASES = frozenset({"sin", "cos", "tan"})
_POWERS = frozenset({
    *("exp", "exp2", "expm1", "sinh", "cosh", "softmax", "log_softmax", "logsumexp", "cross_entropy", "softmin"),
    *("gumbel_softmax", "masked_softmax"),
})
_ROUNDINGS = 4.0  # of the largest element: of both sides, in the call that made it and in the one before
_MASK = -1e3  # scores below it are hidden


def steepness(table: LeafTable, facts: RowFacts) -> tuple[Floats, Floats]:
    """Return for each entry how far its results may be apart because of its inputs, relative to the result: in every
    part, and in single elements.

    It is 0 for all other functions, and where no input of a call differs.
    """
    result, single = np.zeros(len(table.entries)), np.zeros(len(table.entries))
    stems = [key.stem for key in table.keys]
    of_functions = {stem for stem in set(stems) if function_of(stem) in _PHASES or function_of(stem) in _POWERS}
    if not of_functions:
        return result, single
    steep = [stem in of_functions for stem in stems]
    entry = table.entry_of_row()[facts.numeric]
    inputs = facts.role[facts.numeric] == Role.INPUT
    differs = (facts.apart > 0.0).any(axis=1) & inputs & np.array(steep, np.bool_)[entry]
    for position in differs.nonzero()[0].tolist():
        number = int(entry[position])
        if table.keys[number].phase == Phase.FORWARD.value:
            is_power = function_of(table.keys[number].stem) in _POWERS
            seen, rounding = _apart(table, int(facts.numeric[position]), float(facts.roundoff[position]), is_power)
            averaged = rounding / math.sqrt(max(float(facts.numel[position]), 1.0))
            result[number] = max(result[number], seen + averaged)
            single[number] = max(single[number], seen + rounding)
    return result, single


def _apart(table: LeafTable, row: int, roundoff: float, is_power: bool) -> tuple[float, float]:
    """Return how far the elements of two inputs may be apart that matter, in units of the data.

    The first number is how far the largest score of a power differs, which a mask may hide where inputs are judged, the
    second one the rounding of single elements.
    """
    leaves = table.target[row], table.golden[row]
    target, golden = ([] if leaf is None else _extremes(leaf.raw) for leaf in leaves)
    both = [
        (own, other)
        for own, other in zip(target, golden, strict=False)
        if math.isfinite(own) and math.isfinite(other) and not (is_power and min(own, other) < _MASK)
    ]
    largest = max((max(abs(own), abs(other)) for own, other in both), default=0.0)
    seen = max((abs(own - other) for own, other in both), default=0.0) if is_power else 0.0
    rounding = _ROUNDINGS * roundoff * largest
    return seen if seen <= rounding else 0.0, rounding


def _extremes(raw: Any) -> list[float]:
    return [as_float(raw.get(spec.name)) for spec in (LARGEST, SMALLEST)]
