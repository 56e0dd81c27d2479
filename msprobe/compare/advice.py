"""The option that compares what a plain comparison calls different throughout: another batch.

``advice`` returns sentences that stand beside the verdict ``diverged``. They name the option with the values to give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import PARAMETER, PARAMETER_GRAD, Leaf, is_tensor
from msprobe.numerics.verdict import RowKind
from msprobe.trace.leaves import is_shape

if TYPE_CHECKING:
    from msprobe.compare.inputs.slices import TensorSlices

_THROUGHOUT = 0.8
_MOST_PAIRS = 0.5  # of all pairs: the weights that functions are given have one shape
_MOST_LENGTHS = 4
Lengths = tuple[int, int]


def advice(comparison: Comparison) -> list[str]:
    """Return which options compare the pair in spite of what differs throughout; nothing where none does."""
    kinds, table = comparison.judged.kind, comparison.table
    if (kinds == RowKind.SHAPE).any() and table.partial is None:
        return _about_slices(comparison)
    return []


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
    from msprobe.compare.inputs.slices import AxisSlice, TensorSlices  # loaded for this sentence only

    items: dict[Lengths, AxisSlice] = {}
    for axis, left, right in lengths:
        long, short = (left, right) if side == "target" else (right, left)
        known = items.get((long, short))
        items[long, short] = AxisSlice(axis if known is None or known.axis == axis else None, long, 0, short)
    return TensorSlices(tuple(items.values()))
