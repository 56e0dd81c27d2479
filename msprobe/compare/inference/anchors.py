"""Content anchors: modules whose own parameters have the same values on both sides, and on no third module.

Two programs that load the same weights are mapped by them whatever their modules are called and wherever they stand.
Constant parameters (the ones and zeros of a fresh normalisation) say nothing and are left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable

from msprobe.compare.inference.folding import fold_parameter
from msprobe.compare.inference.seen import TensorSignature, distance
from msprobe.compare.inference.tree import Layer

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
    return seen.statistics[3] if seen.statistics is not None else float(hash(seen.checksum) % 2**52)


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
