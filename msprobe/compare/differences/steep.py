"""Functions that turn a small difference of their inputs into a larger one, relative to the size of the result.

``exp(x + d)`` is ``exp(x)`` times about ``1 + d``, and ``sin(x + d)`` differs from ``sin(x)`` by about ``d``: what
counts is the difference in units of the data, and not its share of the largest element. The phase 900 of a time
embedding, rounded to float32, is 5e-5 off; so is its sine. A mask of -65504 among the scores of a softmax hides a
difference of all others. ``log`` takes the share of its argument: near 1 the result is as small as its rounding.

Adam divides an average of gradients by its own size: where a gradient is nothing but rounding (that of a key bias among
those of a fused projection), the quotient is rounding too, and may be as large as any other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from msprobe.compare.differences.row_facts import RowFacts
from msprobe.compare.records.entries import function_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Floats, Role
from msprobe.trace.leaves import as_float
from msprobe.trace.likeness import MASKED

_PHASES = frozenset({"sin", "cos", "tan"})
_POWERS = frozenset({
    *("exp", "exp2", "expm1", "sinh", "cosh", "softmax", "log_softmax", "logsumexp", "cross_entropy", "softmin"),
    *("gumbel_softmax", "masked_softmax"),
})
_LOGARITHMS = frozenset({"log", "log2", "log10"})
_QUOTIENTS = frozenset({"addcdiv", "addcdiv_"})
_ROUNDINGS = 4.0  # of the largest element: of both sides, in the call that made it and in the one before


def steepness(table: LeafTable, facts: RowFacts) -> tuple[Floats, Floats]:
    """Return for each entry how far its results may be apart because of its inputs, relative to the result: in every
    part, and in single elements.

    It is 0 for all other functions, and where no input of a call differs.
    """
    result, single = np.zeros(len(table.entries)), np.zeros(len(table.entries))
    stems = [key.stem for key in table.keys]
    kinds = {stem: function_of(stem) for stem in set(stems)}
    of_functions = {stem for stem, name in kinds.items() if name in _PHASES | _POWERS | _LOGARITHMS | _QUOTIENTS}
    if not of_functions:
        return result, single
    steep = np.array([stem in of_functions for stem in stems], np.bool_)
    entry = table.entry_of_row()[facts.numeric]
    differs = (facts.apart > 0.0).any(axis=1) & steep[entry]
    for number in np.unique(entry[differs]).tolist():
        if kinds[stems[number]] in _QUOTIENTS:
            single[number] = _of_quotient(table, facts, number)
            steep[number] = False
    differs &= steep[entry]
    for position in (differs & (facts.role[facts.numeric] == Role.INPUT)).nonzero()[0].tolist():
        number = int(entry[position])
        if table.keys[number].phase == Phase.FORWARD.value:
            row, roundoff = int(facts.numeric[position]), float(facts.roundoff[position])
            if kinds[stems[number]] in _LOGARITHMS:
                seen, rounding = _of_logarithm(_both(table, row), _both(table, _result(table, facts, number)), roundoff)
            else:
                seen, rounding = _apart(table, row, roundoff, kinds[stems[number]] in _POWERS)
            averaged = rounding / math.sqrt(max(float(facts.numel[position]), 1.0))
            result[number] = max(result[number], seen + averaged)
            single[number] = max(single[number], seen + rounding)
    return result, single


def _of_logarithm(arguments: list[Any], results: list[Any], roundoff: float) -> tuple[float, float]:
    """Return how far logarithms may be apart because their arguments, those of both runs, are, relative to the largest
    logarithm: what the extremes show, and the rounding of single elements."""
    largest = max((abs(end) for raw in results for end in _extremes(raw)), default=0.0)
    target, golden = ([*map(abs, _extremes(raw))] for raw in arguments)
    if not 0.0 < largest < math.inf or min(golden) <= 0.0:
        return 0.0, 0.0
    rounding = _ROUNDINGS * roundoff
    seen = max(abs(own / other - 1.0) for own, other in zip(target, golden, strict=True))
    return (seen if seen <= rounding else 0.0) / largest, rounding / largest


def _of_quotient(table: LeafTable, facts: RowFacts, number: int) -> float:
    """Return how far single elements of ``x + value * numerator / denominator`` may be apart because elements of the
    numerator are rounding, relative to the largest element; no quotient counts as more than 1."""
    numerator, denominator, value = (_input(table, number, name) for name in ("1", "2", "value"))
    result = _result(table, facts, number)
    raws = [_both(table, row)[:1] if row >= 0 else [] for row in (numerator, denominator, result)]
    if not all(raws) or not {numerator, denominator} & set(facts.numeric[(facts.apart > 0.0).any(axis=1)].tolist()):
        return 0.0
    above, below, whole = (max(map(abs, _extremes(own[0]))) for own in raws)
    leaf = table.target[value] if value >= 0 else None
    smallest = _extremes(raws[1][0])[1]
    if smallest <= 0.0 or not math.isfinite(above + below) or whole <= 0.0:
        return 0.0
    factor = 1.0 if leaf is None else abs(as_float(leaf.raw.get("value")))
    rounding = _ROUNDINGS * unit_roundoff(str(raws[0][0].get("dtype"))) * above
    return factor * min(rounding / smallest, 1.0) / whole


def _result(table: LeafTable, facts: RowFacts, number: int) -> int:
    """Return the first row of what a call returns, -1 where there is none."""
    return next((row for row in table.rows_of(number) if facts.role[row] == Role.RESULT), -1)


def _input(table: LeafTable, number: int, name: str) -> int:
    """Return the row of an input of a call, -1 where it has none of this name."""
    rows = (row for row in table.rows_of(number) if (leaf := table.target[row]) and leaf.suffix == f".input.{name}")
    return next(rows, -1)


def _both(table: LeafTable, row: int) -> list[Any]:
    """Return the tensors of target and golden run in a row; nothing where a side has none."""
    raws = table.tensors(row)
    return raws if len(raws) == 2 else []


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
        if math.isfinite(own) and math.isfinite(other) and not (is_power and min(own, other) < MASKED)
    ]
    largest = max((max(abs(own), abs(other)) for own, other in both), default=0.0)
    seen = max((abs(own - other) for own, other in both), default=0.0) if is_power else 0.0
    rounding = _ROUNDINGS * roundoff * largest
    return seen if seen <= rounding else 0.0, rounding


def _extremes(raw: Any) -> list[float]:
    return [as_float(raw.get(spec.name)) for spec in (LARGEST, SMALLEST)]
