"""How likely two modules are the same layer: a weighted mean of what can be compared, each part in words.

Every part is a score in 0..1 with a weight. Agreement of values weighs much, their disagreement little: two runs may
differ in weights, and a fault makes the outputs of the right layer differ.
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


class Part(NamedTuple):
    """One piece of evidence: its weight, its score in 0..1, what it is about; ``apart`` is a distance of values."""

    weight: float
    score: float
    about: str
    apart: float = 0.0


def likeness(ours: Layer, theirs: Layer) -> float:
    """The weighted mean of all parts, 0..1; 0 when the values say that both are layers, but not the same one."""
    if _contradict(ours, theirs):
        return 0.0
    total = weight = 0.0
    for part in parts(ours, theirs):
        total += part.weight * part.score
        weight += part.weight
    return total / weight


def certainty(ours: Layer, theirs: Layer) -> tuple[float, tuple[str, ...]]:
    """Confidence in 0..1 and the evidence in words. Little evidence under other names lowers it."""
    found = list(parts(ours, theirs))
    weight = sum(part.weight for part in found)
    score = sum(part.weight * part.score for part in found) / weight
    if ours.path != theirs.path or ours.cls != theirs.cls:
        score *= min(1.0, weight / ENOUGH)
    return score, tuple(_words(part, ours, theirs) for part in found)


def parts(ours: Layer, theirs: Layer) -> Iterator[Part]:
    """The evidence for ``ours`` being ``theirs``."""
    yield Part(CLASS, class_likeness(ours.cls, theirs.cls), "class")
    yield Part(ATTRIBUTE, attribute_likeness(ours.name, theirs.name), "name")
    if ours.parameters or theirs.parameters:
        yield Part(PARAMETERS, _parameter_shapes(ours, theirs), "parameter shapes")
        yield from _values("parameter", list(_common(ours, theirs)))
    if ours.children or theirs.children:
        yield Part(SUBTREE, _inside(ours, theirs), "layers inside")
        if ours.anchors or theirs.anchors:
            shared = len(ours.anchors & theirs.anchors)
            yield Part(ANCHORS, 2.0 * shared / (len(ours.anchors) + len(theirs.anchors)), "weights inside")
    if ours.outputs and theirs.outputs:
        yield Part(OUTPUTS, _shapes(ours.outputs, theirs.outputs), "output shapes")
        yield from _values("output", list(zip(ours.outputs, theirs.outputs, strict=False)))
    if ours.inputs and theirs.inputs:
        yield Part(INPUTS, _shapes(ours.inputs, theirs.inputs), "input shapes")


def _inside(ours: Layer, theirs: Layer) -> float:
    if ours.shapes is theirs.shapes and ours.kinds is theirs.kinds:
        return 1.0
    if ours.shapes or theirs.shapes:
        return overlap(ours.shapes, theirs.shapes)
    return overlap(ours.kinds, theirs.kinds)


def _contradict(ours: Layer, theirs: Layer) -> bool:
    """Both are leaves whose weights are found again on the other side, and not in each other."""
    if ours.children or theirs.children or not ours.anchors or not theirs.anchors:
        return False
    return ours.anchors != theirs.anchors


def parameter_names(ours: Layer, theirs: Layer) -> tuple[tuple[str, str], ...]:
    """Which parameter is which: by folded name, the rest by shape and order."""
    waiting = dict(theirs.parameters)
    found: dict[str, str] = {}
    for name in ours.parameters:
        folded = fold_parameter(name)
        partner = next((other for other in waiting if fold_parameter(other) == folded), None)
        if partner is not None:
            found[name] = partner
            del waiting[partner]
    for name, seen in ours.parameters.items():
        if name not in found:
            partner = next((other for other, there in waiting.items() if there.shape == seen.shape), None)
            if partner is not None:
                found[name] = partner
                del waiting[partner]
    return tuple(found.items())


def _common(ours: Layer, theirs: Layer) -> Iterator[tuple[TensorSignature, TensorSignature]]:
    for name, other in parameter_names(ours, theirs):
        yield ours.parameters[name], theirs.parameters[other]


def _values(of: str, pairs: list[tuple[TensorSignature, TensorSignature]]) -> Iterator[Part]:
    known = [found for pair in pairs if (found := distance(*pair)) is not None]
    if not known:
        return
    worst = max(known)
    score = closeness(worst)
    weight = VALUES_DIFFER[of] + (VALUES_AGREE[of] - VALUES_DIFFER[of]) * score
    yield Part(weight, score, "weights" if of == "parameter" else "output values", worst)


def _parameter_shapes(ours: Layer, theirs: Layer) -> float:
    left = {fold_parameter(name): seen.shape for name, seen in ours.parameters.items()}
    right = {fold_parameter(name): seen.shape for name, seen in theirs.parameters.items()}
    if left == right:
        return 1.0
    exact = overlap(_counted(left.values()), _counted(right.values()))
    turned = overlap(_counted(map(_sorted, left.values())), _counted(map(_sorted, right.values())))
    return max(0.95 * exact, 0.8 * turned)


def _shapes(left: list[TensorSignature], right: list[TensorSignature]) -> float:
    """The mean likeness of the shapes of the first tensors; a tensor without a partner counts as different."""
    scores = [_shape(ours.shape, theirs.shape) for ours, theirs in zip(left, right, strict=False)]
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
    """The share of common members of two multisets, 0..1."""
    ours, theirs = dict(left), dict(right)
    total = sum(ours.values()) + sum(theirs.values())
    if not total:
        return 1.0
    return 2.0 * sum(min(count, theirs.get(member, 0)) for member, count in ours.items()) / total


def _words(part: Part, ours: Layer, theirs: Layer) -> str:
    if part.about in ("class", "name"):
        left, right = (ours.cls, theirs.cls) if part.about == "class" else (ours.name, theirs.name)
        if left == right:
            return f"same {part.about} {left}"
        return f"{part.about} {left} and {right} {_share(part.score)}"
    apart = f" (apart by {part.apart:.1g})" if part.apart else ""
    return f"{part.about} {_share(part.score)}{apart}"


def _share(score: float) -> str:
    if score >= _ALL:
        return "agree"
    return "differ" if score <= 1.0 - _ALL else f"agree by {score:.0%}"
