"""How likely two modules are the same layer: the weighted mean of all evidence.

Each piece of evidence is a score from 0 to 1 with a weight. Agreement of values weighs much and their disagreement
little, because two runs may have different weights, and a fault makes the outputs of the right layer differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from msprobe.compare.layer_inference.layer_tree import Counted, Layer
from msprobe.compare.layer_inference.name_folding import attribute_likeness, class_likeness, fold_parameter
from msprobe.compare.layer_inference.tensor_signature import TensorSignature, closeness, distance

PARAMETERS, SUBTREE, ANCHORS = 3.0, 3.0, 4.0
OUTPUTS, INPUTS, CLASS, ATTRIBUTE = 1.5, 0.5, 1.5, 1.5
VALUES_AGREE = {"parameter": 3.0, "output": 2.0}
VALUES_DIFFER = {"parameter": 0.7, "output": 0.3}
ENOUGH = 5.0
_ALL = 0.99


class Evidence(NamedTuple):
    """One piece of evidence for or against a pair of layers.

    Args:
        weight: how much it counts.
        score: from 0 (against the pair) to 1 (for it).
        about: what is compared, in words.
        distance: the distance of the values that are compared.
    """

    weight: float
    score: float
    about: str
    distance: float = 0.0


def likeness(target: Layer, golden: Layer) -> float:
    """Return how alike two layers are, from 0 to 1."""
    total = weight = 0.0
    for piece in evidence(target, golden):
        total += piece.weight * piece.score
        weight += piece.weight
    return total / weight


def certainty(target: Layer, golden: Layer) -> tuple[float, tuple[str, ...]]:
    """Return the confidence in a pair, from 0 to 1, and the evidence in words.

    Where names or classes differ, little evidence lowers the confidence.
    """
    pieces = list(evidence(target, golden))
    weight = sum(piece.weight for piece in pieces)
    score = sum(piece.weight * piece.score for piece in pieces) / weight
    if target.path != golden.path or target.cls != golden.cls:
        score *= min(1.0, weight / ENOUGH)
    return score, tuple(_words(piece, target, golden) for piece in pieces)


def evidence(target: Layer, golden: Layer) -> Iterator[Evidence]:
    """Yield the evidence for two layers being the same."""
    yield Evidence(CLASS, class_likeness(target.cls, golden.cls), "class")
    yield Evidence(ATTRIBUTE, attribute_likeness(target.name, golden.name), "name")
    if target.parameters or golden.parameters:
        yield Evidence(PARAMETERS, _parameter_shapes(target, golden), "parameter shapes")
        yield from _values("parameter", list(_paired_parameters(target, golden)))
    if target.children or golden.children:
        yield Evidence(SUBTREE, _subtree_overlap(target, golden), "layers inside")
        if target.anchors or golden.anchors:
            shared = len(target.anchors & golden.anchors)
            yield Evidence(ANCHORS, 2.0 * shared / (len(target.anchors) + len(golden.anchors)), "weights inside")
    if target.outputs and golden.outputs:
        yield Evidence(OUTPUTS, _shapes(target.outputs, golden.outputs), "output shapes")
        yield from _values("output", list(zip(target.outputs, golden.outputs, strict=False)))
    if target.inputs and golden.inputs:
        yield Evidence(INPUTS, _shapes(target.inputs, golden.inputs), "input shapes")


def _subtree_overlap(target: Layer, golden: Layer) -> float:
    if target.shapes is golden.shapes and target.classes is golden.classes:
        return 1.0
    if target.shapes or golden.shapes:
        return overlap(target.shapes, golden.shapes)
    return overlap(target.classes, golden.classes)


def parameter_names(target: Layer, golden: Layer) -> tuple[tuple[str, str], ...]:
    """Return pairs of parameter names: by folded name, the rest by shape and order."""
    unpaired = dict(golden.parameters)
    pairs: dict[str, str] = {}
    for name in target.parameters:
        folded = fold_parameter(name)
        partner = next((other for other in unpaired if fold_parameter(other) == folded), None)
        if partner is not None:
            pairs[name] = partner
            del unpaired[partner]
    for name, tensor in target.parameters.items():
        if name not in pairs:
            partner = next((other for other, own in unpaired.items() if own.shape == tensor.shape), None)
            if partner is not None:
                pairs[name] = partner
                del unpaired[partner]
    return tuple(pairs.items())


def _paired_parameters(target: Layer, golden: Layer) -> Iterator[tuple[TensorSignature, TensorSignature]]:
    for name, other in parameter_names(target, golden):
        yield target.parameters[name], golden.parameters[other]


def _values(of: str, pairs: list[tuple[TensorSignature, TensorSignature]]) -> Iterator[Evidence]:
    """Yield the evidence of the values of paired tensors; nothing where no values were recorded."""
    distances = [difference for pair in pairs if (difference := distance(*pair)) is not None]
    if not distances:
        return
    worst = max(distances)
    score = closeness(worst)
    weight = VALUES_DIFFER[of] + (VALUES_AGREE[of] - VALUES_DIFFER[of]) * score
    yield Evidence(weight, score, "weights" if of == "parameter" else "output values", worst)


def _parameter_shapes(target: Layer, golden: Layer) -> float:
    left = {fold_parameter(name): tensor.shape for name, tensor in target.parameters.items()}
    right = {fold_parameter(name): tensor.shape for name, tensor in golden.parameters.items()}
    if left == right:
        return 1.0
    exact = overlap(_counted(left.values()), _counted(right.values()))
    transposed = overlap(_counted(map(_sorted, left.values())), _counted(map(_sorted, right.values())))
    return max(0.95 * exact, 0.8 * transposed)


def _shapes(left: list[TensorSignature], right: list[TensorSignature]) -> float:
    """Return the mean likeness of the shapes of paired tensors; a tensor without a partner counts as different."""
    scores = [_shape(first.shape, second.shape) for first, second in zip(left, right, strict=False)]
    return sum(scores) / max(len(left), len(right))


def _shape(left: tuple[int, ...], right: tuple[int, ...]) -> float:
    if left == right:
        return 1.0
    if _sorted(left) == _sorted(right):
        return 0.8  # batch first and sequence first
    numel, other = 1, 1
    for size in left:
        numel *= size
    for size in right:
        other *= size
    return 0.6 if numel == other else 0.0


def _sorted(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(size for size in shape if size != 1))


def _counted(members: Iterable[tuple[int, ...]]) -> Counted:
    return frozenset(Counter(members).items())


@lru_cache(maxsize=65536)
def overlap(left: Counted, right: Counted) -> float:
    """Return the share of common members of two multisets, from 0 to 1."""
    left_counts, right_counts = dict(left), dict(right)
    total = sum(left_counts.values()) + sum(right_counts.values())
    if not total:
        return 1.0
    return 2.0 * sum(min(count, right_counts.get(member, 0)) for member, count in left_counts.items()) / total


def _words(piece: Evidence, target: Layer, golden: Layer) -> str:
    """Return a piece of evidence in words."""
    if piece.about in ("class", "name"):
        left, right = (target.cls, golden.cls) if piece.about == "class" else (target.name, golden.name)
        if left == right:
            return f"same {piece.about} {left}"
        return f"{piece.about} {left} and {right} {_agreement(piece.score)}"
    apart = f" (apart by {piece.distance:.1g})" if piece.distance else ""
    return f"{piece.about} {_agreement(piece.score)}{apart}"


def _agreement(score: float) -> str:
    if score >= _ALL:
        return "agree"
    return "differ" if score <= 1.0 - _ALL else f"agree by {score:.0%}"
