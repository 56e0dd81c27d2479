"""A first difference that is small enough to be rounding which a formula magnifies.

A difference of nearly equal numbers (``E[x^2] - E[x]^2``) may lose half of the digits, and no tolerance knows which
calls do. What rounding does in a program is measured by running it again.
"""

from __future__ import annotations

import math

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode
from msprobe.core.naming.names import Phase
from msprobe.numerics.verdict import Role, RowKind

_HALF_OF_THE_DIGITS = 4.0  # times the square root of the unit round-off
_MOST = 0.05


def magnified_rounding(comparison: Comparison, entry: int) -> str:
    """Return a sentence where the first divergence, ``entry``, may be rounding; "" otherwise.

    Inside of a formula that one side writes otherwise, values have nothing in common: there the module around decides.
    """
    if comparison.judged.by_reruns.size or comparison.mode is Mode.CHECKSUM or entry >= len(comparison.table.entries):
        return ""
    if not _is_small(comparison, _rows(comparison, entry)):
        around = _module_around(comparison, entry)
        if around is None or not _is_small(comparison, _rows(comparison, around)):
            return ""
    return (
        "so small a difference may also be rounding that a formula magnifies: msprobe noise --perturb measures what "
        "rounding does in this program, and compare --noise judges by it"
    )


def _rows(comparison: Comparison, entry: int) -> list[int]:
    """Return the rows of an entry that differ."""
    return [row for row in comparison.table.rows_of(entry) if comparison.judged.kind[row] > RowKind.UNCHECKED]


def _is_small(comparison: Comparison, rows: list[int]) -> bool:
    """Return whether computed values differ in these rows, by no more than half of their digits."""
    judged, measured = comparison.judged, comparison.measured
    if not rows or any(judged.kind[row] != RowKind.VALUE or measured.role[row] == Role.PARAMETER for row in rows):
        return False
    limit = min(_HALF_OF_THE_DIGITS * math.sqrt(float(measured.passed[rows].max())), _MOST)
    return float(measured.worst[rows].max()) <= limit


def _module_around(comparison: Comparison, entry: int) -> int | None:
    """Return the innermost call of a module of both sides around a forward call in a region of one side, None where
    there is none."""
    table, enclosing = comparison.table, comparison.measured.enclosing
    if not table.alone or table.keys[entry].phase != Phase.FORWARD.value:
        return None
    around = int(enclosing[entry])
    while around >= 0 and not table.entries[around].of_both:
        around = int(enclosing[around])
    return around if around >= 0 else None
