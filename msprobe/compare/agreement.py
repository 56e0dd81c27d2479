"""How sure an agreement of values is: whether it includes the order of the elements, and what rounding may hide.

Max, Min, Mean and Norm are the same for any order of the elements: a shifted batch, another padding side, swapped
heads. Only the order-sensitive statistic (``Projection``) sees it, and it decides nothing where a side lacks it.
Such an agreement holds "as far as these statistics tell".

A call that chooses between values (topk, argmax) turns rounding into another choice, where two values are as near to
each other as the runs are. In a 16-bit format, a call that makes a difference larger may be the first to show one that
an earlier call has made within its rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.records.entries import function_of
from msprobe.core.store.record_walk import Leaf, is_tensor
from msprobe.core.tensors.projection import KEY
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF
from msprobe.trace.leaves import element_count

AS_FAR = "as far as these statistics tell"
WHY = "a side has no Projection, so elements in another order are not seen"
_CHOICES = frozenset({"topk", "argmax", "argmin", "sort", "argsort", "kthvalue", "searchsorted", "bucketize", "sign"})
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


def agreement_of(comparison: Comparison, entry: int, inputs: Sequence[int]) -> str:
    """Return in words that the inputs of a call agree.

    Args:
        comparison: the compared pair.
        entry: the number of the call.
        inputs: the rows of its inputs.
    """
    apart = float(comparison.measured.worst[inputs].max(initial=0.0)) if len(inputs) else 0.0
    coarse = apart > 0.0 and float(comparison.measured.passed[inputs].max(initial=0.0)) > FLOAT32_ROUNDOFF
    text = "its inputs agree"
    if apart > 0.0 and function_of(comparison.table.keys[entry].stem) in _CHOICES:
        text += (
            f" up to rounding ({apart:.3g} of their scale), which may decide here: it chooses between values, and "
            "another choice is no fault where these are as near to each other"
        )
    elif coarse:
        text += (
            f" as far as the rounding of their number format tells ({apart:.3g} of their scale); an earlier call may "
            "have made a part of it"
        )
    return f"{text}, {AS_FAR}" if is_order_blind(comparison, inputs) else text


def _has_order(leaf: Leaf) -> bool:
    """Return whether a value is a tensor of several elements with statistics."""
    return is_tensor(leaf.raw) and leaf.raw.get("Norm") is not None and (element_count(leaf.raw) or 0) > 1
