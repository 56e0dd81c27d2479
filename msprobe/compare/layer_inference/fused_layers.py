"""One layer that does the work of several: a fused q, k and v, or gate and up.

Their weights stand one after the other along axis 0, so the shapes add up there, and the outputs along the last axis.
Largest, smallest, mean and norm of the whole follow from those of the parts whatever the order inside, which confirms
or refutes a candidate when both runs have the same weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from msprobe.compare.layer_inference.layer_similarity import likeness
from msprobe.compare.layer_inference.layer_tree import Layer
from msprobe.compare.layer_inference.name_folding import class_likeness, fold_parameter
from msprobe.compare.layer_inference.tensor_signature import TensorSignature, closeness, distance
from msprobe.numerics.merged_statistics import Shard, merged_statistics

Names = tuple[str, ...]
"""Names of a whole layer and of its parts, without what is around them."""

MOST_PARTS = 4
_NEAR = 6
_LEAST = 0.5
_SHAPES_ONLY, _OUTPUTS_TOO, CONFIRMED = 0.65, 0.75, 0.97
_REFUTED = 0.3
_FITS = 0.9
_SAME_INPUT = 1e-6


@dataclass(slots=True)
class Fused:
    """``parts`` of one side together are ``whole`` of the other; ``in_target`` says where the whole one is."""

    whole: Layer
    parts: tuple[Layer, ...]
    confidence: float
    in_target: bool

    @property
    def names(self) -> Names:
        """What the layers are called."""
        return _names(self.whole, self.parts)


@dataclass(frozen=True, slots=True)
class Values:
    """What values can tell. ``same_weights`` says that the two runs are known to share weights, so that values which do
    not fit refute; not so for layers that are called like those of ``confirmed``, of which one has a fault."""

    same_weights: bool
    confirmed: frozenset[Names] = frozenset()

    def refute(self, whole: Layer, parts: Sequence[Layer]) -> bool:
        """Whether values that do not fit speak against these layers."""
        return self.same_weights and _names(whole, parts) not in self.confirmed


def _names(whole: Layer, parts: Sequence[Layer]) -> Names:
    return tuple(layer.path.rpartition(".")[2] for layer in (whole, *parts))


def fused_layers(ours: Sequence[Layer], theirs: Sequence[Layer], values: Values) -> list[Fused]:
    """Layers of one list that are several neighbours of the other, where nothing pairs better with any of them."""
    left, right = _spare(ours, theirs), _spare(theirs, ours)
    return [*_found(left, right, values, True), *_found(right, left, values, False)]


def _spare(layers: Sequence[Layer], others: Sequence[Layer]) -> list[Layer]:
    """Leaves with weights of a shape that this side has more often, and whose values the other side does not have."""
    counted = Counter(map(_form, layers))
    counted.subtract(map(_form, others))
    return [
        layer
        for layer in layers
        if layer.parameters and not layer.children and not layer.anchors and counted[_form(layer)] > 0
    ]


def _form(layer: Layer) -> tuple[tuple[int, ...], ...]:
    return tuple(seen.shape for seen in layer.parameters.values())


def _found(wholes: Sequence[Layer], others: Sequence[Layer], values: Values, in_target: bool) -> Iterator[Fused]:
    used: set[Layer] = set()
    for whole in wholes:
        free = [layer for layer in others if layer not in used]
        parts, confidence = _best_parts(whole, free, values)
        if confidence < _LEAST or max(likeness(whole, layer) for layer in free) >= confidence:
            continue
        if all(likeness(part, layer) < confidence for part in parts for layer in wholes if layer is not whole):
            used.update(parts)
            yield Fused(whole, parts, confidence, in_target)


def _best_parts(whole: Layer, others: Sequence[Layer], values: Values) -> tuple[tuple[Layer, ...], float]:
    best: tuple[tuple[Layer, ...], float] = ((), 0.0)
    room = _weight(whole)
    usable = [layer for layer in others if _weight(layer)[1:] == room[1:] and _weight(layer)[:1] < room[:1]]
    for start, first in enumerate(usable):
        near = usable[start + 1 : start + _NEAR]
        for rest in (rest for count in range(1, MOST_PARTS) for rest in combinations(near, count)):
            confidence = fusion(whole, (first, *rest), values)
            if confidence > best[1]:
                best = (first, *rest), confidence
    return best


def _weight(layer: Layer) -> tuple[int, ...]:
    return next((seen.shape for name, seen in layer.parameters.items() if fold_parameter(name) == "weight"), ())


def fusion(whole: Layer, parts: Sequence[Layer], values: Values) -> float:
    """Confidence in 0..1 that ``parts`` together are ``whole``; 0 when the shapes do not add up."""
    if whole.children or any(part.children for part in parts):
        return 0.0
    wholes = _weights(whole)
    if not wholes or "weight" not in wholes or any(_weights(part).keys() != wholes.keys() for part in parts):
        return 0.0
    if min(class_likeness(whole.cls, part.cls) for part in parts) < _REFUTED:
        return 0.0
    for name, seen in wholes.items():
        if not _add_up(seen, [_weights(part)[name] for part in parts], 0):
            return 0.0
    return _confidence(whole, parts, values) if _share_input(parts) else 0.0


def _confidence(whole: Layer, parts: Sequence[Layer], values: Values) -> float:
    found = _SHAPES_ONLY
    if whole.outputs and all(part.outputs for part in parts):
        if not _add_up(whole.outputs[0], [part.outputs[0] for part in parts], -1):
            return 0.0
        found = _OUTPUTS_TOO
    wholes = _weights(whole)
    fits = [fit for name, seen in wholes.items() if (fit := _fit(seen, [_weights(p)[name] for p in parts])) is not None]
    if not fits:
        return found
    if min(fits) >= _FITS:
        return CONFIRMED
    return _REFUTED * found if values.refute(whole, parts) else found


def _share_input(parts: Sequence[Layer]) -> bool:
    """Whether all parts were given the same tensor, as far as that is recorded."""
    given = [part.inputs[0] for part in parts if part.inputs]
    return all((distance(given[0], other) or 0.0) <= _SAME_INPUT for other in given[1:])


def _weights(layer: Layer) -> dict[str, TensorSignature]:
    return {fold_parameter(name): seen for name, seen in layer.parameters.items()}


def _add_up(whole: TensorSignature, parts: Sequence[TensorSignature], axis: int) -> bool:
    shape = whole.shape
    if not shape or any(len(part.shape) != len(shape) for part in parts):
        return False
    rest = [size for at, size in enumerate(shape) if at != axis % len(shape)]
    others = [[size for at, size in enumerate(part.shape) if at != axis % len(shape)] for part in parts]
    return all(other == rest for other in others) and sum(part.shape[axis] for part in parts) == shape[axis]


def _fit(whole: TensorSignature, parts: Sequence[TensorSignature]) -> float | None:
    """How well the statistics of the parts make those of the whole, 0..1; None where they are not recorded."""
    shards = [Shard(part.statistics, part.numel) for part in parts if part.statistics is not None]
    if whole.statistics is None or whole.constant or len(shards) != len(parts):
        return None
    expected = TensorSignature(whole.shape, merged_statistics(shards).statistics, None)
    difference = distance(whole, expected)
    return None if difference is None or math.isnan(difference) else closeness(difference)
