"""Which parameter was updated wrongly in the step before, where that step itself agrees."""

from __future__ import annotations

import numpy as np

from msprobe.compare.table.table import LeafTable
from msprobe.numerics.verdict import Judged, Measured, Role, RowKind

OUTLIER = 100.0
"""How much more than most parameters one may differ that is as wrong as they are."""
FAR_OUT = 3.0
"""How much more than most parameters one has to differ, of merged ranks, to be the one that is wrong."""
WRONG_UPDATE = "the step before agrees, so its gradient, or its update, differs from those of the other parameters"


def wrong_update(table: LeafTable, measured: Measured, judged: Judged) -> int | None:
    """Return the row of the parameter of merged ranks whose update stands out; None where none does.

    Calls after the backward passes are left out of merged ranks. So what became of the gradients shows in the
    parameters alone: in copies that have come apart, or in one of them that differs more than the others.
    """
    kind, worst, trained = judged.kind, measured.worst, _trained(table, measured)
    wrong = [row for row in trained if kind[row] > RowKind.UNCHECKED]
    if not wrong or len(trained) < 3:
        return None
    if any(kind[row] == RowKind.NOT_UPDATED for row in wrong):
        return None
    apart = [row for row in wrong if kind[row] > RowKind.VALUE]
    if apart:
        return None if 2 * len(apart) > len(trained) else apart[0]
    row = max(wrong, key=lambda number: worst[number])
    stands_out = worst[row] > FAR_OUT * np.median(worst[trained]) and 2 * len(wrong) <= len(trained)
    return row if stands_out else None


def moved_with_others(table: LeafTable, measured: Measured, judged: Judged, row: int) -> bool:
    """Return whether most trained parameters differ about as much as this one, as after a wrong update."""
    trained = _trained(table, measured)
    worst, value = measured.worst, judged.kind[row] == RowKind.VALUE
    return value and len(trained) > 1 and bool(worst[row] <= OUTLIER * np.median(worst[trained]))


def _trained(table: LeafTable, measured: Measured) -> list[int]:
    """Return the rows of parameters that are trained, as far as one of both sides says so; MindSpore does not."""
    rows = np.flatnonzero(measured.role == Role.PARAMETER).tolist()
    leaves = ((row, (table.target[row], table.golden[row])) for row in rows)
    raws = (
        (row, [leaf.raw for leaf in pair if leaf is not None and isinstance(leaf.raw, dict)]) for row, pair in leaves
    )
    return [row for row, sides in raws if any(raw.get("requires_grad") for raw in sides)]
