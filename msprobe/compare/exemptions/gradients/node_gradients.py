"""The gradients that leave a function, as two tools record them: paired by their values.

msprobe records one gradient per argument of the call, in the order of the arguments. mindstudio-probe records what the
autograd node of the result hands on, in the order of the node: for ``linear`` those of the bias, the input and the
transposed weight; for a function that is made of several operations only those of the last one. So the tensors of the
two lists are paired where their statistics are close, whatever their order and shape; a value that a transposition or
a reshape moved keeps its statistics. What finds no partner is not judged, except for functions whose node is known to
hand on the gradients of the arguments: there the tensors pair in their order, and a difference is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msprobe.compare.records.entries import EntryKey
from msprobe.compare.records.otherwise import Otherwise
from msprobe.core.store.record_walk import OUTPUT, Leaf, is_tensor
from msprobe.core.tensors.statistics import LARGEST
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import NEAR, UNMOVED, distance, same_checksums

Cells = list[tuple[Leaf | None, Leaf | None]]
"""The rows of one entry: target and golden leaf of each."""
_ROUNDINGS = 8.0
_IN_ORDER = frozenset({
    *("softmax", "log_softmax", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "softplus", "mish"),
    *("layer_norm", "conv1d", "conv2d", "conv3d", "mm", "bmm", "exp", "log", "sqrt", "rsqrt", "square"),
    *("__mul__", "__truediv__", "mul", "div", "mse_loss", "scaled_dot_product_attention", "max_pool2d"),
})
"""Functions of one autograd node that gets the tensors among the arguments in their order."""


def pair_node_gradients(
    key: EntryKey, cells: Cells, other: int, flags: set[str], *, by_statistics: bool
) -> tuple[Cells, dict[int, Otherwise]]:
    """Return the rows of a backward call of a function with its results paired anew, and those that are not judged.

    Args:
        key: the entry.
        cells: its rows.
        other: the side of the other tool, 0 or 1.
        flags: the suffixes of arguments of the forward call of which one side alone says ``requires_grad``.
        by_statistics: whether statistics are compared, which a transposition does not change.
    """
    rest = [cell for cell in cells if (cell[0] or cell[1]).slot != OUTPUT]  # type: ignore[union-attr]
    sides = [[leaf for cell in cells if (leaf := cell[side]) is not None and leaf.slot == OUTPUT] for side in (0, 1)]
    own = sides[1 - other]
    theirs = [leaf for leaf in sides[other] if leaf.raw is not None]
    partners = {i: j for i, j in _partners(own, theirs).items() if by_statistics or _is_same_order(own[i], theirs[j])}
    left = [number for number in range(len(theirs)) if number not in partners.values()]
    if key.stem.rpartition(".")[2] in _IN_ORDER:
        partners.update(_partners_in_order(own, theirs, partners, left))
    rows, reasons = list(rest), dict[int, Otherwise]()
    for number, leaf in enumerate(own):
        partner = theirs[partners[number]] if number in partners else None
        detached = leaf.suffix.replace(".output.", ".input.", 1) in flags
        if partner is None and detached and leaf.raw is None and left:
            partner = theirs[left.pop(0)]
        elif partner is None and leaf.raw is None:
            partner = leaf
        elif partner is None and not detached:
            reasons[len(rows)] = Otherwise.FUNCTION_GRADIENTS
        rows.append(_row(leaf, None if partner is None else _under_name_of(leaf, partner), other))
    for number in left:
        reasons[len(rows)] = Otherwise.FUNCTION_GRADIENTS
        rows.append(_row(None, theirs[number], other))
    return rows, reasons


def _row(own: Leaf | None, theirs: Leaf | None, other: int) -> tuple[Leaf | None, Leaf | None]:
    return (own, theirs) if other else (theirs, own)


def _under_name_of(leaf: Leaf, partner: Leaf) -> Leaf:
    """Return the partner under the suffix of a leaf, and in its shape where both are tensors."""
    if not (is_tensor(leaf.raw) and is_tensor(partner.raw)):
        return partner._replace(suffix=leaf.suffix)
    return partner._replace(suffix=leaf.suffix, raw={**partner.raw, "shape": leaf.raw["shape"]})


def _is_same_order(leaf: Leaf, partner: Leaf) -> bool:
    """Return whether two tensors of equal statistics hold their elements in one order, as far as their shapes tell."""
    shape = leaf.raw["shape"]
    is_square = len(set(shape)) == 1 < len(shape)
    return partner.raw["shape"] == shape and (not is_square or partner.suffix == leaf.suffix)


def _partners(own: Sequence[Leaf], theirs: Sequence[Leaf]) -> dict[int, int]:
    """Return for the tensors of one side the closest ones of the other, nearest first."""
    distances = sorted(
        (distance, i, j)
        for i, leaf in enumerate(own)
        for j, other in enumerate(theirs)
        if (distance := _distance(leaf.raw, other.raw)) < math.inf
        and distance <= max(NEAR, _ROUNDINGS * unit_roundoff(str(leaf.raw["dtype"])))
    )
    partners: dict[int, int] = {}
    for _, i, j in distances:
        if i not in partners and j not in partners.values():
            partners[i] = j
    return partners


def _partners_in_order(
    own: Sequence[Leaf], theirs: Sequence[Leaf], partners: Mapping[int, int], left: list[int]
) -> dict[int, int]:
    """Return partners of the same dtype and shape for what has none, in order; ``left`` loses them."""
    found: dict[int, int] = {}
    for i, leaf in enumerate(own):
        if i in partners or not is_tensor(leaf.raw):
            continue
        for j in left:
            raw = theirs[j].raw
            if is_tensor(raw) and all(raw[name] == leaf.raw[name] for name in ("dtype", "shape")):
                found[i] = j
                left.remove(j)
                break
    return found


def _distance(left: Any, right: Any) -> float:
    """Return how far the statistics of two tensors are apart, relative to their size; infinity where they are not of
    one dtype and number of elements, or have nothing to compare. Statistics that are not finite tell nothing here."""
    if not (is_tensor(left) and is_tensor(right)) or left["dtype"] != right["dtype"]:
        return math.inf
    if element_count(left) != element_count(right):
        return math.inf
    if left.get(LARGEST.name) is None or right.get(LARGEST.name) is None:
        return 0.0 if same_checksums(left, right) else math.inf
    return distance(left, right, [name for name in UNMOVED if all(map(math.isfinite, _both(left, right, name)))])


def _both(left: Mapping[str, Any], right: Mapping[str, Any], name: str) -> tuple[float, float]:
    return as_float(left.get(name)), as_float(right.get(name))
