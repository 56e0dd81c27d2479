"""Which module of one list stands for which module of the other.

``pair_siblings`` pairs two lists of layers, which are the children of one pair in execution order. Layers with the same
content anchors pair first, in whatever order. Between those that keep their order, the rest is aligned as sequences: by
the pairing in order with the largest sum of likeness above ``LEAST``.

``place_anchors`` finds the content anchors: modules whose own parameters have the same values on both sides, and that
no third module has. They map two programs that load the same weights, whatever their modules are called and wherever
they stand. Constant parameters (the ones and zeros of a fresh normalisation) identify nothing and are left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from msprobe.compare.alignment.sequence_alignment import Floats, longest_ascending, weighted_subsequence
from msprobe.compare.layer_inference.layer_similarity import likeness, overlap
from msprobe.compare.layer_inference.layer_tree import Layer
from msprobe.compare.layer_inference.name_folding import fold_parameter
from msprobe.compare.layer_inference.tensor_signature import TensorSignature, distance
from msprobe.core.tensors.statistics import NORM_COLUMN

LEAST = 0.45
"""The likeness that a pair must exceed."""
_LEAST_OUT_OF_ORDER = 0.75
"""The likeness of pairs that do not keep the order."""
_RIVAL_MARGIN = 0.02
_WRAPPER_MARGIN = 0.05
_MOST_CELLS = 30_000
_SHARED = 0.75
"""The share of common anchors by which two layers hold mostly the same weights."""


@dataclass(slots=True)
class Pairing:
    """Two layers that belong together.

    Args:
        target: the layer of the target.
        golden: the layer of the golden run.
        rivals: how many layers of the target fit as well, and how many of the golden run; itself included.
        in_order: whether the pair keeps the order of execution.
    """

    target: Layer
    golden: Layer
    rivals: tuple[int, int] = (1, 1)
    in_order: bool = True


@dataclass(slots=True)
class Gap:
    """The unpaired layers of both sides between two pairs."""

    target: list[Layer] = field(default_factory=list)
    golden: list[Layer] = field(default_factory=list)


def pair_siblings(target: Sequence[Layer], golden: Sequence[Layer]) -> tuple[list[Pairing], list[Gap]]:
    """Return the pairs of two lists of layers, and the gaps with unpaired layers."""
    anchored = _pairs_by_anchors(target, golden)
    in_order = longest_ascending(anchored)
    pairs = [Pairing(target[i], golden[j], in_order=(i, j) in set(in_order)) for i, j in anchored]
    paired_left, paired_right = {i for i, _ in anchored}, {j for _, j in anchored}
    gaps: list[Gap] = []
    start = (0, 0)
    for i, j in [*in_order, (len(target), len(golden))]:
        left = [target[k] for k in range(start[0], i) if k not in paired_left]
        right = [golden[k] for k in range(start[1], j) if k not in paired_right]
        more_pairs, more_gaps = _pairs_in_order(left, right)
        pairs += more_pairs
        gaps += more_gaps
        start = (i + 1, j + 1)
    return pairs + _pairs_out_of_order(gaps), [gap for gap in gaps if gap.target or gap.golden]


def _pairs_by_anchors(target: Sequence[Layer], golden: Sequence[Layer]) -> list[tuple[int, int]]:
    """Return the positions of layers that hold mostly the same weights, both with layers inside or both without."""
    owner = {anchor: j for j, layer in enumerate(golden) for anchor in layer.anchors}
    pairs = []
    for i, layer in enumerate(target):
        votes = Counter(owner[anchor] for anchor in layer.anchors if anchor in owner)
        if not votes:
            continue
        j, shared = votes.most_common(1)[0]
        other = golden[j]
        share = 2.0 * shared / (len(layer.anchors) + len(other.anchors))
        if share >= _SHARED and bool(layer.children) == bool(other.children) and _fit(layer, other) > 0.0:
            pairs.append((i, j))
    return pairs


def _fit(target: Layer, golden: Layer) -> float:
    """Return the likeness of two layers, but 0 for a wrapper: where a layer inside one of them is more like the
    other."""
    own = likeness(target, golden)
    if own <= LEAST or not (target.children or golden.children):
        return own
    if _holds_the_parameters_inside(target, golden) or _holds_the_parameters_inside(golden, target):
        return 0.0
    limit = own + (_WRAPPER_MARGIN if target.children and golden.children else 0.0)
    shared = overlap(target.shapes, golden.shapes)
    for child in target.children:
        if overlap(child.shapes, golden.shapes) >= shared and likeness(child, golden) > limit:
            return 0.0
    for child in golden.children:
        if overlap(target.shapes, child.shapes) >= shared and likeness(target, child) > limit:
            return 0.0
    return own


def _holds_the_parameters_inside(wrapper: Layer, other: Layer) -> bool:
    """Return whether a layer without parameters has one inside with all the parameters of the other layer, which has
    no layers inside."""
    if wrapper.parameters or other.children or not other.parameters:
        return False
    wanted = _shapes_by_name(other).items()
    return any(wanted <= _shapes_by_name(child).items() for child in wrapper.children)


def _shapes_by_name(layer: Layer) -> dict[str, tuple[int, ...]]:
    return {fold_parameter(name): tensor.shape for name, tensor in layer.parameters.items()}


class _FitTable:
    """How well the layers of two lists fit, for all pairs near the diagonal."""

    def __init__(self, target: Sequence[Layer], golden: Sequence[Layer]) -> None:
        rows, columns = len(target), len(golden)
        whole = rows * columns <= _MOST_CELLS
        self._slope = columns / max(rows, 1)
        self._reach = columns if whole else max(32, _MOST_CELLS // (2 * rows))
        self.columns = columns
        self.rows = [{j: _fit(target[i], golden[j]) for j in range(*self.span(i))} for i in range(rows)]

    def span(self, row: int) -> tuple[int, int]:
        """Return the first column of a row, and the column after the last."""
        middle = int(row * self._slope)
        return max(0, middle - self._reach), min(self.columns, middle + self._reach + 1)


def _pairs_in_order(target: Sequence[Layer], golden: Sequence[Layer]) -> tuple[list[Pairing], list[Gap]]:
    """Return the pairs of two lists that keep the order, and the gaps before, between and after them."""
    if not target or not golden:
        return [], [Gap(list(target), list(golden))]
    table = _FitTable(target, golden)
    pairs = _best_path(table)
    gaps = []
    start = (0, 0)
    for i, j in [*pairs, (len(target), len(golden))]:
        gaps.append(Gap(list(target[start[0] : i]), list(golden[start[1] : j])))
        start = (i + 1, j + 1)
    return [Pairing(target[i], golden[j], rivals=_rivals(table, i, j)) for i, j in pairs], gaps


def _best_path(table: _FitTable) -> list[tuple[int, int]]:
    """Return the pairs in order with the largest sum of gains; the gain of a pair is its fit above ``LEAST``."""

    def gains(i: int, start: int, stop: int) -> Floats:
        row = table.rows[i]
        return np.array([max(row.get(j, 0.0) - LEAST, 0.0) for j in range(start, stop)])

    return weighted_subsequence(len(table.rows), table.columns, gains)


def _rivals(table: _FitTable, i: int, j: int) -> tuple[int, int]:
    """Return how many layers of the left list fit layer ``j`` as well as its partner does, and how many of the right
    list fit layer ``i``."""
    limit = table.rows[i][j] - _RIVAL_MARGIN
    right = sum(value >= limit for value in table.rows[i].values())
    left = sum(row.get(j, 0.0) >= limit for row in table.rows)
    return left, right


def _pairs_out_of_order(gaps: Sequence[Gap]) -> list[Pairing]:
    """Return pairs of layers that are alike and stand in another order; removes them from their gaps."""
    left = [layer for gap in gaps for layer in gap.target]
    right = [layer for gap in gaps for layer in gap.golden]
    if not left or not right or len(left) * len(right) > _MOST_CELLS:
        return []
    ranked = sorted(
        ((_fit(target, golden), -i, -j) for i, target in enumerate(left) for j, golden in enumerate(right)),
        reverse=True,
    )
    pairs: list[Pairing] = []
    used: set[Layer] = set()
    for score, i, j in ranked:
        target, golden = left[-i], right[-j]
        if score >= _LEAST_OUT_OF_ORDER and target not in used and golden not in used:
            pairs.append(Pairing(target, golden, in_order=False))
            used |= {target, golden}
    for gap in gaps:
        gap.target = [layer for layer in gap.target if layer not in used]
        gap.golden = [layer for layer in gap.golden if layer not in used]
    return pairs


# Content anchors


_EQUAL = 1e-4
"""The distance up to which two parameters are the same."""
_Content = list[tuple[str, TensorSignature]]
_Key = tuple[tuple[str, tuple[int, ...]], ...]


def place_anchors(target: Layer, golden: Layer) -> float:
    """Give a number to each pair of layers of equal content that is unique on both sides, and add it to the anchors of
    these layers and of all layers around them.

    Args:
        target: the root of the target.
        golden: the root of the golden run.

    Returns:
        The share of layers with parameters that have an anchor, from 0 to 1: whether the runs share weights.
    """
    left, right = _by_shapes(target.subtree()), _by_shapes(golden.subtree())
    count = 0
    total = min(sum(map(len, left.values())), sum(map(len, right.values())))
    for key, layers in left.items():
        for layer, partner in _unique_pairs(layers, right.get(key, [])):
            layer.anchors = partner.anchors = frozenset((count,))
            count += 1
    for root in (target, golden):
        for layer in reversed(list(root.subtree())):
            layer.anchors = layer.anchors.union(*(child.anchors for child in layer.children))
    return count / total if total else 0.0


def _by_shapes(layers: Iterable[Layer]) -> dict[_Key, list[tuple[float, _Content, Layer]]]:
    """Return the layers with their content, by names and shapes of their parameters, and sorted by size."""
    groups: dict[_Key, list[tuple[float, _Content, Layer]]] = defaultdict(list)
    for layer in layers:
        parameters = sorted((fold_parameter(name), tensor) for name, tensor in layer.parameters.items())
        content = [item for item in parameters if not item[1].constant]
        if content and all(tensor.statistics is not None or tensor.checksum is not None for _, tensor in content):
            groups[tuple((name, tensor.shape) for name, tensor in content)].append((_size(content), content, layer))
    for group in groups.values():
        group.sort(key=lambda item: item[0])
    return groups


def _size(content: _Content) -> float:
    """Return a number by which equal contents are neighbours: the norm of the first tensor, or a hash of its
    checksum."""
    tensor = content[0][1]
    return tensor.statistics[NORM_COLUMN] if tensor.statistics is not None else float(hash(tensor.checksum) % 2**52)


def _unique_pairs(
    target: list[tuple[float, _Content, Layer]], golden: list[tuple[float, _Content, Layer]]
) -> list[tuple[Layer, Layer]]:
    """Return the pairs of layers of equal content of which neither equals a third layer."""
    sizes = [size for size, _, _ in golden]
    partners: list[list[int]] = []
    partner_counts = [0] * len(golden)
    for size, content, _ in target:
        margin = _EQUAL * abs(size)
        near = range(bisect_left(sizes, size - margin), bisect_right(sizes, size + margin))
        equal = [j for j in near if _same(content, golden[j][1])]
        partners.append(equal)
        for j in equal:
            partner_counts[j] += 1
    return [
        (layer, golden[equal[0]][2])
        for (_, _, layer), equal in zip(target, partners, strict=True)
        if len(equal) == 1 and partner_counts[equal[0]] == 1
    ]


def _same(left: _Content, right: _Content) -> bool:
    for (_, target), (_, golden) in zip(left, right, strict=True):
        difference = distance(target, golden)
        if difference is None or difference > _EQUAL:
            return False
    return True
