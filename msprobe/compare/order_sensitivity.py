"""Whether an agreement of statistics includes the order of the elements.

Max, Min, Mean and Norm are the same for any order of the elements: a shifted batch, another padding side, swapped
heads. Only the order-sensitive statistic (``Projection``) sees it, and it decides nothing where a side lacks it.
Such an agreement holds "as far as these statistics tell".
"""

from __future__ import annotations

from collections.abc import Iterable

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.records.leaves import element_count
from msprobe.core.store.record_walk import Leaf, is_tensor
from msprobe.core.tensors.projection import KEY

AS_FAR = "as far as these statistics tell"
WHY = "a side has no Projection, so elements in another order are not seen"
_SAMPLE = 64
"""How many tensors of a comparison are looked at: a run records the projection of nearly all or of none."""


def is_order_blind(comparison: Comparison, rows: Iterable[int] | None = None) -> bool:
    """Return whether tensors were compared by statistics, and none of them by the order of its elements.

    Args:
        comparison: the compared pair.
        rows: the rows in question; None for the whole comparison, of which the first tensors are looked at.
    """
    if comparison.mode is not Mode.STATISTICS:
        return False
    table, seen = comparison.table, 0
    for row in range(table.row_count) if rows is None else rows:
        target, golden = table.target[row], table.golden[row]
        if target is None or golden is None or not (_has_order(target) and _has_order(golden)):
            continue
        if target.raw.get(KEY) is not None and golden.raw.get(KEY) is not None:
            return False
        seen += 1
        if rows is None and seen == _SAMPLE:
            return True
    return seen > 0


def _has_order(leaf: Leaf) -> bool:
    """Return whether a value is a tensor of several elements with statistics."""
    return is_tensor(leaf.raw) and leaf.raw.get("Norm") is not None and (element_count(leaf.raw) or 0) > 1
