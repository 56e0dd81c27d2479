"""Which parameter was updated wrongly in the step before, where that step itself agrees."""

from __future__ import annotations

import numpy as np

from msprobe.compare.comparison import Comparison
from msprobe.compare.parallel.merged_dump import MergedDump
from msprobe.numerics.verdict import Role, RowKind

OUTLIER = 100.0
"""How much more than most parameters one may differ that is as wrong as they are."""
FAR_OUT = 3.0
"""How much more than most parameters one has to differ, of merged ranks, to be the one that is wrong."""
WRONG_UPDATE = "the step before agrees, so its gradient, or its update, differs from those of the other parameters"


def wrong_update(comparison: Comparison) -> int | None:
    """Return the row of the parameter whose update stands out, where ranks were merged; None where none does.

    Calls after the backward passes are left out of merged ranks. So what became of the gradients shows in the
    parameters alone: in copies that have come apart, or in one of them that differs more than the others.
    """
    if not isinstance(comparison.target, MergedDump):
        return None
    kind, worst = comparison.judged.kind, comparison.measured.worst
    trained = _trained(comparison)
    wrong = [row for row in trained if kind[row] > RowKind.UNCHECKED]
    if not wrong or len(trained) < 3:
        return None
    apart = [row for row in wrong if kind[row] > RowKind.VALUE]
    if apart:
        return None if 2 * len(apart) > len(trained) else apart[0]
    row = max(wrong, key=lambda number: worst[number])
    stands_out = worst[row] > FAR_OUT * np.median(worst[trained]) and 2 * len(wrong) <= len(trained)
    return row if stands_out else None


def moved_with_others(comparison: Comparison, row: int) -> bool:
    """Return whether most trained parameters differ about as much as this one, as after a wrong update."""
    trained = _trained(comparison)
    worst, value = comparison.measured.worst, comparison.judged.kind[row] == RowKind.VALUE
    return value and len(trained) > 1 and bool(worst[row] <= OUTLIER * np.median(worst[trained]))


def _trained(comparison: Comparison) -> list[int]:
    """Return the rows of parameters that are trained, as far as one of both sides says so; MindSpore does not."""
    table, rows = comparison.table, np.flatnonzero(comparison.measured.role == Role.PARAMETER).tolist()
    leaves = ((row, (table.target[row], table.golden[row])) for row in rows)
    raws = (
        (row, [leaf.raw for leaf in pair if leaf is not None and isinstance(leaf.raw, dict)]) for row, pair in leaves
    )
    return [row for row, sides in raws if any(raw.get("requires_grad") for raw in sides)]
