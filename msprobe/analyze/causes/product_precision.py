"""Products of float32 matrices that one device rounds to TF32 or HF32.

Devices multiply float32 with 10 or 11 bits of mantissa when they are told to, some by default. Then the first product
of a run differs by more than float32 explains, without a systematic part (its norm agrees much better), and so do all
others. ``rounded_products`` recognises this, so that the answer is not a layer.
"""

from __future__ import annotations

import numpy as np

from msprobe.compare.comparison import Comparison
from msprobe.compare.differences.coarsest import ROUNDOFFS
from msprobe.compare.table.precisions import products
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF, STRICT, tolerances
from msprobe.numerics.verdict import Role, RowKind

_BEYOND_FLOAT32 = 2.0**-19
_MOST = 0.5


def rounded_products(comparison: Comparison, entry: int) -> str:
    """Return a sentence where the products of a run look rounded to TF32 or HF32, and ``entry``, the first divergence,
    is the first of them; "" otherwise."""
    if not _is_within(comparison, entry):
        return ""
    plain = [number for number in products(comparison.table).nonzero()[0].tolist() if _is_plain(comparison, number)]
    differing = [number for number in plain if _apart(comparison, number) > _BEYOND_FLOAT32]
    agrees_before = any(number < entry and number not in differing for number in plain)
    if not plain or agrees_before or len(differing) < max(1.0, _MOST * len(plain)):
        return ""
    return (
        "the products look rounded to TF32 or HF32 on one side; --precision tf32 (or hf32) judges by it, and "
        "torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 or allow_hf32 of the device switch it"
    )


def _is_plain(comparison: Comparison, entry: int) -> bool:
    """Return whether a product is a forward call in float32 of both sides."""
    pair, key = comparison.table.entries[entry], comparison.table.keys[entry]
    both = pair.target is not None and pair.golden is not None
    if not (both and key.phase == "forward"):
        return False
    return bool(comparison.measured.coarsest[entry] <= FLOAT32_ROUNDOFF)


def _results(comparison: Comparison, entry: int) -> list[int]:
    role = comparison.measured.role
    return [row for row in comparison.table.rows_of(entry) if role[row] == Role.RESULT]


def _apart(comparison: Comparison, entry: int) -> float:
    return max((float(comparison.measured.worst[row]) for row in _results(comparison, entry)), default=0.0)


def _is_within(comparison: Comparison, entry: int) -> bool:
    """Return whether an entry is a product, or has one inside, whose results alone differ, and by no more than the
    coarsest of these precisions explains."""
    measured, kinds = comparison.measured, comparison.judged.kind
    differing = [row for row in comparison.table.rows_of(entry) if kinds[row] > RowKind.UNCHECKED]
    own = set(_results(comparison, entry))
    if not differing or any(row not in own or kinds[row] != RowKind.VALUE for row in differing):
        return False
    if measured.coarsest[entry] > FLOAT32_ROUNDOFF:
        return False
    rows = np.array(differing)
    roundoff = np.full(len(rows), max(ROUNDOFFS.values()))
    limits = tolerances(roundoff, measured.numel[rows], measured.reduction[rows], STRICT)
    average = limits.element if measured.whole[rows].all() else limits.average
    parts = (
        np.maximum(measured.element, measured.projection)[rows] <= limits.element,
        measured.mean[rows] <= average,
        measured.norm[rows] <= average,
    )
    return bool(np.all(parts))
