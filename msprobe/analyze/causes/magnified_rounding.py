"""A first difference that is small enough to be rounding which a formula magnifies.

A difference of nearly equal numbers (``E[x^2] - E[x]^2``) may lose half of the digits, and no tolerance knows which
calls do. What rounding does in a program is measured by running it again.
"""

from __future__ import annotations

import math

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode
from msprobe.numerics.verdict import Role, RowKind

_HALF_OF_THE_DIGITS = 4.0  # times the square root of the unit round-off
_MOST = 0.05


def magnified_rounding(comparison: Comparison, entry: int) -> str:
    """Return a sentence where the first divergence, ``entry``, may be rounding; "" otherwise."""
    judged, measured, origin = comparison.judged, comparison.measured, comparison.table.origin
    if judged.by_reruns.size or comparison.mode is Mode.CHECKSUM or entry >= len(comparison.table.entries):
        return ""
    if origin is not None and entry in (origin.entry, origin.boundary):
        rows = [origin.row]
    else:
        rows = [row for row in comparison.table.rows_of(entry) if judged.kind[row] > RowKind.UNCHECKED]
    if not rows or any(judged.kind[row] != RowKind.VALUE or measured.role[row] == Role.PARAMETER for row in rows):
        return ""
    apart = float(measured.worst[rows].max())
    if apart > min(_HALF_OF_THE_DIGITS * math.sqrt(float(measured.passed[rows].max())), _MOST):
        return ""
    return (
        "so small a difference may also be rounding that a formula magnifies: msprobe noise --perturb measures what "
        "rounding does in this program, and compare --noise judges by it"
    )
