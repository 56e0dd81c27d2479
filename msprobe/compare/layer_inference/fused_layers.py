"""Finds layers that do the work of several layers of the other model: a fused q, k and v, or gate and up.

In a fused layer the weights of the parts are concatenated along axis 0 and the outputs along the last axis, so that
their shapes add up there. Max, Min, Mean and Norm of the whole follow from those of the parts, whatever their order.
That confirms or refutes a candidate when both runs have the same weights.
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
"""The last names in the paths of a fused layer and of its parts."""

_MOST_PARTS = 4
_NEIGHBOURS = 6
_LEAST = 0.5
_SHAPES_ONLY, _OUTPUTS_TOO, CONFIRMED = 0.65, 0.75, 0.97
_REFUTED = 0.3
_FITS = 0.9
_SAME_INPUT = 1e-6


@dataclass(slots=True)
class Fusion:
    """A layer of one side that does the work of several layers of the other.

    Args:
        whole: the fused layer.
        parts: the layers of the other side.
        confidence: how sure this is, from 0 to 1.
        in_target: whether the fused layer is in the target.
    """

    whole: Layer
    parts: tuple[Layer, ...]
    confidence: float
    in_target: bool

    @property
    def names(self) -> Names:
        """Return the names of the layers."""
        return _names(self.whole, self.parts)


@dataclass(frozen=True, slots=True)
class Values:
    """What the values of two runs can prove.

    Args:
        same_weights: the two runs have the same weights, so that values which do not fit refute a fusion.
        confirmed: names of layers for which they do not refute it: another fusion of the same names fits, so that this
            one has a fault.
    """

    same_weights: bool
    confirmed: frozenset[Names] = frozenset()

    def refute(self, whole: Layer, parts: Sequence[Layer]) -> bool:
        """Return whether values that do not fit refute the fusion of these layers."""
        return self.same_weights and _names(whole, parts) not in self.confirmed


def _names(whole: Layer, parts: Sequence[Layer]) -> Names:
    return tuple(layer.path.rpartition(".")[2] for layer in (whole, *parts))


def fused_layers(target: Sequence[Layer], golden: Sequence[Layer], values: Values) -> list[Fusion]:
    """Return the fusions between two lists of layers: one layer of a list, and neighbours in the other list, where none
    of them has a better partner."""
    left, right = _candidates(target, golden), _candidates(golden, target)
    return [*_fusions(left, right, values, True), *_fusions(right, left, values, False)]


def _candidates(layers: Sequence[Layer], others: Sequence[Layer]) -> list[Layer]:
    """Return leaves with weights of shapes that this side has more often, and of values that the other side has not."""
    counts = Counter(map(_parameter_shapes, layers))
    counts.subtract(map(_parameter_shapes, others))
    return [
        layer
        for layer in layers
        if layer.parameters and not layer.children and not layer.anchors and counts[_parameter_shapes(layer)] > 0
    ]


def _parameter_shapes(layer: Layer) -> tuple[tuple[int, ...], ...]:
    return tuple(tensor.shape for tensor in layer.parameters.values())


def _fusions(wholes: Sequence[Layer], others: Sequence[Layer], values: Values, in_target: bool) -> Iterator[Fusion]:
    used: set[Layer] = set()
    for whole in wholes:
        free = [layer for layer in others if layer not in used]
        parts, confidence = _best_parts(whole, free, values)
        if confidence < _LEAST or max(likeness(whole, layer) for layer in free) >= confidence:
            continue
        if all(likeness(part, layer) < confidence for part in parts for layer in wholes if layer is not whole):
            used.update(parts)
            yield Fusion(whole, parts, confidence, in_target)


def _best_parts(whole: Layer, others: Sequence[Layer], values: Values) -> tuple[tuple[Layer, ...], float]:
    """Return the neighbours among ``others`` that fit best as parts, and the confidence; no parts and 0 where none
    fit."""
    best: tuple[tuple[Layer, ...], float] = ((), 0.0)
    shape = _weight_shape(whole)
    usable = [
        layer for layer in others if _weight_shape(layer)[1:] == shape[1:] and _weight_shape(layer)[:1] < shape[:1]
    ]
    for start, first in enumerate(usable):
        near = usable[start + 1 : start + _NEIGHBOURS]
        for rest in (rest for count in range(1, _MOST_PARTS) for rest in combinations(near, count)):
            confidence = fusion_confidence(whole, (first, *rest), values)
            if confidence > best[1]:
                best = (first, *rest), confidence
    return best


def _weight_shape(layer: Layer) -> tuple[int, ...]:
    parameters = layer.parameters.items()
    return next((tensor.shape for name, tensor in parameters if fold_parameter(name) == "weight"), ())


def fusion_confidence(whole: Layer, parts: Sequence[Layer], values: Values) -> float:
    """Return the confidence that ``parts`` together are ``whole``, from 0 to 1; 0 when the shapes do not add up."""
    if whole.children or any(part.children for part in parts):
        return 0.0
    wholes = _weights(whole)
    if not wholes or "weight" not in wholes or any(_weights(part).keys() != wholes.keys() for part in parts):
        return 0.0
    if min(class_likeness(whole.cls, part.cls) for part in parts) < _REFUTED:
        return 0.0
    for name, tensor in wholes.items():
        if not _add_up(tensor, [_weights(part)[name] for part in parts], 0):
            return 0.0
    return _confidence_by_values(whole, parts, values) if _share_input(parts) else 0.0


def _confidence_by_values(whole: Layer, parts: Sequence[Layer], values: Values) -> float:
    """Return the confidence for layers whose parameter shapes add up."""
    confidence = _SHAPES_ONLY
    if whole.outputs and all(part.outputs for part in parts):
        if not _add_up(whole.outputs[0], [part.outputs[0] for part in parts], -1):
            return 0.0
        confidence = _OUTPUTS_TOO
    wholes = _weights(whole)
    possible_fits = (_fit(tensor, [_weights(part)[name] for part in parts]) for name, tensor in wholes.items())
    fits = [fit for fit in possible_fits if fit is not None]
    if not fits:
        return confidence
    if min(fits) >= _FITS:
        return CONFIRMED
    return _REFUTED * confidence if values.refute(whole, parts) else confidence


def _share_input(parts: Sequence[Layer]) -> bool:
    """Return whether all parts have the same input tensor, as far as that is recorded."""
    inputs = [part.inputs[0] for part in parts if part.inputs]
    return all((distance(inputs[0], other) or 0.0) <= _SAME_INPUT for other in inputs[1:])


def _weights(layer: Layer) -> dict[str, TensorSignature]:
    return {fold_parameter(name): tensor for name, tensor in layer.parameters.items()}


def _add_up(whole: TensorSignature, parts: Sequence[TensorSignature], axis: int) -> bool:
    """Return whether the shapes of the parts make that of the whole when concatenated along an axis."""
    shape = whole.shape
    if not shape or any(len(part.shape) != len(shape) for part in parts):
        return False
    axis %= len(shape)
    rest = (*shape[:axis], *shape[axis + 1 :])
    others = [(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts]
    return all(other == rest for other in others) and sum(part.shape[axis] for part in parts) == shape[axis]


def _fit(whole: TensorSignature, parts: Sequence[TensorSignature]) -> float | None:
    """Return how well the statistics of the parts make those of the whole, from 0 to 1; None where they are not
    recorded."""
    shards = [Shard(part.statistics, part.numel) for part in parts if part.statistics is not None]
    if whole.statistics is None or whole.constant or len(shards) != len(parts):
        return None
    expected = TensorSignature(whole.shape, merged_statistics(shards).statistics, None)
    difference = distance(whole, expected)
    return None if difference is None or math.isnan(difference) else closeness(difference)
