"""Which module of one list stands for which of the other: both lists are the children of one pair, in execution order.

Layers of equal unique weights pair first, in whatever order. Between those that keep their order the rest is aligned as
sequences: the pairing that keeps the order and has the largest sum of likeness above ``LEAST``.

Content anchors: modules whose own parameters have the same values on both sides, and on no third module.

Two programs that load the same weights are mapped by them whatever their modules are called and wherever they stand.
Constant parameters (the ones and zeros of a fresh normalisation) say nothing and are left out.
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
STRAY = 0.75
ALIKE = 0.02
_WITHIN = 0.05
_MOST_CELLS = 30_000
_OWNED = 0.75


@dataclass(slots=True)
class Pairing:
    """Two layers that belong together; ``rivals`` counts layers as likely on (target, golden) side, itself included,
    and ``in_order`` is False when only the content says so."""

    ours: Layer
    theirs: Layer
    rivals: tuple[int, int] = (1, 1)
    in_order: bool = True


@dataclass(slots=True)
class Gap:
    """Neighbours left over on both sides between two pairs."""

    ours: list[Layer] = field(default_factory=list)
    theirs: list[Layer] = field(default_factory=list)


def pair_siblings(ours: Sequence[Layer], theirs: Sequence[Layer]) -> tuple[list[Pairing], list[Gap]]:
    """Pairs and, between them, what is left over."""
    anchored = _anchored(ours, theirs)
    kept = longest_ascending(anchored)
    in_order = set(kept)
    found = [Pairing(ours[i], theirs[j], in_order=(i, j) in in_order) for i, j in anchored]
    taken_ours, taken_theirs = {i for i, _ in anchored}, {j for _, j in anchored}
    gaps: list[Gap] = []
    start = (0, 0)
    for i, j in [*kept, (len(ours), len(theirs))]:
        mine = [ours[k] for k in range(start[0], i) if k not in taken_ours]
        others = [theirs[k] for k in range(start[1], j) if k not in taken_theirs]
        pairs, left = _aligned(mine, others)
        found += pairs
        gaps += left
        start = (i + 1, j + 1)
    return found + _strays(gaps), [gap for gap in gaps if gap.ours or gap.theirs]


def _anchored(ours: Sequence[Layer], theirs: Sequence[Layer]) -> list[tuple[int, int]]:
    """Positions of layers that hold the same weights by and large, both of them with layers inside or both without."""
    owner = {anchor: j for j, layer in enumerate(theirs) for anchor in layer.anchors}
    found = []
    for i, layer in enumerate(ours):
        votes = Counter(owner[anchor] for anchor in layer.anchors if anchor in owner)
        if not votes:
            continue
        j, shared = votes.most_common(1)[0]
        other = theirs[j]
        share = 2.0 * shared / (len(layer.anchors) + len(other.anchors))
        if share >= _OWNED and bool(layer.children) == bool(other.children) and _fits(layer, other) > 0.0:
            found.append((i, j))
    return found


def _fits(ours: Layer, theirs: Layer) -> float:
    """Likeness, but 0 for a wrapper: where a layer inside one of them is more like the other."""
    own = likeness(ours, theirs)
    if own <= LEAST or not (ours.children or theirs.children):
        return own
    limit = own + (_WITHIN if ours.children and theirs.children else 0.0)
    shared = overlap(ours.shapes, theirs.shapes)
    for child in ours.children:
        if overlap(child.shapes, theirs.shapes) >= shared and likeness(child, theirs) > limit:
            return 0.0
    for child in theirs.children:
        if overlap(ours.shapes, child.shapes) >= shared and likeness(ours, child) > limit:
            return 0.0
    return own


class _Table:
    """Likeness of all pairs near the diagonal."""

    def __init__(self, ours: Sequence[Layer], theirs: Sequence[Layer]) -> None:
        rows, columns = len(ours), len(theirs)
        whole = rows * columns <= _MOST_CELLS
        self._slope = columns / max(rows, 1)
        self._reach = columns if whole else max(32, _MOST_CELLS // (2 * rows))
        self.columns = columns
        self.rows = [{j: _fits(ours[i], theirs[j]) for j in range(*self.span(i))} for i in range(rows)]

    def span(self, row: int) -> tuple[int, int]:
        middle = int(row * self._slope)
        return max(0, middle - self._reach), min(self.columns, middle + self._reach + 1)


def _aligned(ours: Sequence[Layer], theirs: Sequence[Layer]) -> tuple[list[Pairing], list[Gap]]:
    if not ours or not theirs:
        return [], [Gap(list(ours), list(theirs))]
    table = _Table(ours, theirs)
    pairs = _best_path(table)
    found = [Pairing(ours[i], theirs[j], rivals=_rivals(table, i, j)) for i, j in pairs]
    gaps = []
    start = (0, 0)
    for i, j in [*pairs, (len(ours), len(theirs))]:
        gaps.append(Gap(list(ours[start[0] : i]), list(theirs[start[1] : j])))
        start = (i + 1, j + 1)
    return found, gaps


def _best_path(table: _Table) -> list[tuple[int, int]]:
    """The pairing in order with the largest sum of gains; that of a pair is its likeness above ``LEAST``."""

    def gains(i: int, start: int, stop: int) -> Floats:
        row = table.rows[i]
        return np.array([max(row.get(j, 0.0) - LEAST, 0.0) for j in range(start, stop)])

    return weighted_subsequence(len(table.rows), table.columns, gains)


def _rivals(table: _Table, i: int, j: int) -> tuple[int, int]:
    """How many of each side fit the other's layer as well as its partner."""
    own = table.rows[i][j] - ALIKE
    golden = sum(value >= own for value in table.rows[i].values())
    target = sum(row.get(j, 0.0) >= own for row in table.rows)
    return target, golden


def _strays(gaps: Sequence[Gap]) -> list[Pairing]:
    """Layers that are alike but stand in another order; taken out of their gaps."""
    left = [layer for gap in gaps for layer in gap.ours]
    right = [layer for gap in gaps for layer in gap.theirs]
    if not left or not right or len(left) * len(right) > _MOST_CELLS:
        return []
    ranked = sorted(
        ((_fits(ours, theirs), -i, -j) for i, ours in enumerate(left) for j, theirs in enumerate(right)), reverse=True
    )
    found: list[Pairing] = []
    used: set[Layer] = set()
    for score, i, j in ranked:
        ours, theirs = left[-i], right[-j]
        if score >= STRAY and ours not in used and theirs not in used:
            found.append(Pairing(ours, theirs, in_order=False))
            used |= {ours, theirs}
    for gap in gaps:
        gap.ours = [layer for layer in gap.ours if layer not in used]
        gap.theirs = [layer for layer in gap.theirs if layer not in used]
    return found


_EQUAL = 1e-4
_Content = list[tuple[str, TensorSignature]]
_Key = tuple[tuple[str, tuple[int, ...]], ...]


def place_anchors(target: Layer, golden: Layer) -> float:
    """Number the layers of equal, unique content on both sides and pass the numbers up to all layers around them.

    Returns the share of the layers with parameters that found their like, 0..1: whether the runs share weights.
    """
    left, right = _by_shapes(target.below()), _by_shapes(golden.below())
    count = 0
    total = min(sum(map(len, left.values())), sum(map(len, right.values())))
    for key, layers in left.items():
        for ours, theirs in _alike(layers, right.get(key, [])):
            ours.anchors = theirs.anchors = frozenset((count,))
            count += 1
    for root in (target, golden):
        for layer in reversed(list(root.below())):
            layer.anchors = layer.anchors.union(*(child.anchors for child in layer.children))
    return count / total if total else 0.0


def _by_shapes(layers: Iterable[Layer]) -> dict[_Key, list[tuple[float, _Content, Layer]]]:
    groups: dict[_Key, list[tuple[float, _Content, Layer]]] = defaultdict(list)
    for layer in layers:
        content = sorted((fold_parameter(name), seen) for name, seen in layer.parameters.items())
        telling = [item for item in content if not item[1].constant]
        known = [item for item in telling if item[1].statistics is not None or item[1].checksum is not None]
        if known and len(known) == len(telling):
            groups[tuple((name, seen.shape) for name, seen in known)].append((_size(known), known, layer))
    for group in groups.values():
        group.sort(key=lambda item: item[0])
    return groups


def _size(content: _Content) -> float:
    """A number by which equal contents are neighbours: the norm of the first tensor, or its checksum as a number."""
    seen = content[0][1]
    return seen.statistics[NORM_COLUMN] if seen.statistics is not None else float(hash(seen.checksum) % 2**52)


def _alike(
    ours: list[tuple[float, _Content, Layer]], theirs: list[tuple[float, _Content, Layer]]
) -> list[tuple[Layer, Layer]]:
    """Pairs that are each other's only like."""
    sizes = [size for size, _, _ in theirs]
    partners: list[list[int]] = []
    taken = [0] * len(theirs)
    for size, content, _ in ours:
        room = _EQUAL * abs(size)
        near = range(bisect_left(sizes, size - room), bisect_right(sizes, size + room))
        found = [j for j in near if _same(content, theirs[j][1])]
        partners.append(found)
        for j in found:
            taken[j] += 1
    return [
        (layer, theirs[found[0]][2])
        for (_, _, layer), found in zip(ours, partners, strict=True)
        if len(found) == 1 and taken[found[0]] == 1
    ]


def _same(left: _Content, right: _Content) -> bool:
    for (_, ours), (_, theirs) in zip(left, right, strict=True):
        difference = distance(ours, theirs)
        if difference is None or difference > _EQUAL:
            return False
    return True
