"""The option that compares what a plain comparison calls different: another batch throughout, or rounding.

``advice`` returns sentences that stand beside the verdict ``diverged``. They name the option with the values to give.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.inputs.slices import AxisSlice, TensorSlices
from msprobe.compare.records.leaves import is_shape
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import PARAMETER, PARAMETER_GRAD, Leaf, is_tensor
from msprobe.numerics.verdict import Role, RowKind

_THROUGHOUT = 0.8
_MOST_PAIRS = 0.5  # of all pairs: the weights that functions are given have one shape
_MOST_LENGTHS = 4
_HALF_OF_THE_DIGITS = 4.0  # times the square root of the unit round-off
_MOST_ROUNDING = 0.05
Lengths = tuple[int, int]


def advice(comparison: Comparison) -> list[str]:
    """Return which options compare the pair in spite of what differs throughout; nothing where none does."""
    kinds, table = comparison.judged.kind, comparison.table
    if (kinds == RowKind.SHAPE).any() and table.partial is None:
        return _about_slices(comparison)
    return _about_rounding(comparison)


def _about_rounding(comparison: Comparison) -> list[str]:
    """Return the sentence about a first difference that is small enough to be rounding which a formula magnifies.

    A difference of nearly equal numbers (``E[x^2] - E[x]^2``) may lose half of the digits, and no formula of a
    tolerance knows which calls do. What rounding does in a program is measured by running it again.
    """
    judged, measured = comparison.judged, comparison.measured
    diverging = comparison.row_levels.diverging.nonzero()[0]
    if judged.by_reruns.size or not diverging.size or comparison.mode is Mode.CHECKSUM:
        return []
    entry, origin = int(diverging[0]), comparison.table.origin
    if origin is not None and entry in (origin.entry, origin.boundary):
        rows = [origin.row]
    else:
        rows = [row for row in comparison.table.rows_of(entry) if judged.kind[row] > RowKind.UNCHECKED]
    apart = float(measured.worst[rows].max(initial=0.0))
    roundoff = float(measured.passed[rows].max(initial=0.0))
    soft = all(judged.kind[row] == RowKind.VALUE and measured.role[row] != Role.PARAMETER for row in rows)
    if not soft or not 0.0 < apart <= min(_HALF_OF_THE_DIGITS * math.sqrt(roundoff), _MOST_ROUNDING):
        return []
    return [
        f"the first difference is small ({apart:.2g} of the scale): rounding that a formula magnifies may look like "
        "this; msprobe noise --perturb measures what rounding does in this program, and compare --noise judges by it"
    ]


def _pairs(table: LeafTable) -> Iterator[tuple[Leaf, Leaf]]:
    """Yield every pair of tensors."""
    for target, golden in zip(table.target, table.golden, strict=True):
        if target is not None and golden is not None and is_tensor(target.raw) and is_tensor(golden.raw):
            yield target, golden


def _about_slices(comparison: Comparison) -> list[str]:
    """Return the sentence about activations that are longer on one side, where axis 0 of nearly all of them is."""
    pairs = [
        (target.raw["shape"], golden.raw["shape"])
        for target, golden in _pairs(comparison.table)
        if golden.slot not in (PARAMETER, PARAMETER_GRAD)
    ]
    shapes = [(left, right) for left, right in pairs if left != right and is_shape(left) and is_shape(right)]
    if len(shapes) < _MOST_PAIRS * len(pairs):
        return []
    first = Counter((left[0], right[0]) for left, right in shapes if left and len(left) == len(right))
    first = Counter({pair: count for pair, count in first.items() if pair[0] != pair[1]})
    if not first or first.total() < _THROUGHOUT * len(shapes):
        return []
    lengths = sorted({
        (axis, own, other)
        for left, right in shapes
        for axis, (own, other) in enumerate(zip(left, right, strict=False))
        if own != other
    })
    longer = {own > other for _, own, other in lengths}
    side = "target" if True in longer else "golden"
    if len(longer) > 1 or len({pair[1:] for pair in lengths}) > _MOST_LENGTHS:
        return ["axis 0 of nearly all tensors has another length: --target-slice and --golden-slice compare a part"]
    option = f"--{side}-slice {_slices(lengths, side)}"
    also = "" if comparison.mode is Mode.TENSOR else " (it needs dumps of task tensor)"
    return [f"axis 0 of nearly all tensors is longer in the {_WORDS[side]}: {option} compares its first rows{also}"]


_WORDS = {"target": "target", "golden": "golden run"}


def _slices(lengths: list[tuple[int, int, int]], side: str) -> TensorSlices:
    """Return the first items of each axis that is longer on a side; ``lengths`` are axis and lengths of both sides."""
    items: dict[Lengths, AxisSlice] = {}
    for axis, left, right in lengths:
        long, short = (left, right) if side == "target" else (right, left)
        known = items.get((long, short))
        items[long, short] = AxisSlice(axis if known is None or known.axis == axis else None, long, 0, short)
    return TensorSlices(tuple(items.values()))
