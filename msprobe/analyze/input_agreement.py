"""What is said of the inputs of a call in which a difference shows first: that they agree, and how sure that is.

A call that chooses between values (topk, argmax) turns rounding into another choice, where two values are as near to
each other as the runs are. In a 16-bit format, a call that makes a difference larger may be the first to show one that
an earlier call has made within its rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

from msprobe.compare.comparison import Comparison
from msprobe.compare.records.entries import function_of
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF

_CHOICES = frozenset({"topk", "argmax", "argmin", "sort", "argsort", "kthvalue", "searchsorted", "bucketize", "sign"})


def agreement_of(comparison: Comparison, entry: int, inputs: Sequence[int]) -> str:
    """Return in words that the inputs of a call agree.

    Args:
        comparison: the compared pair.
        entry: the number of the call.
        inputs: the rows of its inputs.
    """
    apart = float(comparison.measured.worst[inputs].max(initial=0.0)) if len(inputs) else 0.0
    if apart == 0.0:
        return "its inputs agree"
    if function_of(comparison.table.keys[entry].stem) in _CHOICES:
        return (
            f"its inputs agree up to rounding ({apart:.3g} of their scale), which may decide here: it chooses between "
            "values, and another choice is no fault where these are as near to each other"
        )
    if float(comparison.measured.passed[inputs].max(initial=0.0)) > FLOAT32_ROUNDOFF:
        return (
            f"its inputs agree as far as the rounding of their number format tells ({apart:.3g} of their scale); an "
            "earlier call may have made a part of it"
        )
    return "its inputs agree"
