"""Inference of a layer map: the trees of both dumps are aligned level by level, from the top.

On each level the children of a pair are aligned (``siblings``). What is left over may be fused (``fusion``), or
wrapped: then a layer gives way to the layers inside it and the alignment is tried again.

The layer map of two dumps, inferred: which module of one model stands for which of the other, without a file.

layer_map = infer_layer_map(target, golden)          # two loaded dumps, of one framework or of two
for pair in layer_map.pairs:
    print(pair.target, pair.golden, pair.confidence, pair.evidence)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.compare.alignment.layer_map import FusedPair, LayerMap, LayerPair
from msprobe.compare.layer_inference.fused_layers import CONFIRMED, Fused, Values, fused_layers
from msprobe.compare.layer_inference.layer_similarity import certainty, parameter_names
from msprobe.compare.layer_inference.layer_tree import Counted, Layer, build_tree
from msprobe.compare.layer_inference.match_layers import Gap, Pairing, pair_siblings, place_anchors
from msprobe.core.store.reader import Dump, paused_gc

SHARED_WEIGHTS = 0.3
BY_ORDER, GUESSED = 0.9, 0.5
MOVED = 0.9
_DEEPEST = 64
_Layers = Sequence[Layer]


def infer_layer_map(target: Dump, golden: Dump) -> LayerMap:
    """Which module of ``target`` stands for which of ``golden``, with confidence and evidence for each pair.

    Names, classes, parameter and output shapes, values and the order of execution all count; no one of them is needed.
    Dumps without module entries (level L1) give an empty map.
    """
    with paused_gc():
        known: dict[Counted, Counted] = {}
        ours, theirs = build_tree(target, known), build_tree(golden, known)
        share = place_anchors(ours, theirs)
        work = _Inference(Values(share >= SHARED_WEIGHTS))
        work.align(ours, theirs)
        found = work.result(ours, theirs)
        confirmed = frozenset(one.names for one in work.fused if one.confidence >= CONFIRMED)
        if not _has_lost(found, {whole for whole, *_ in confirmed}):
            return found
        again = _Inference(Values(share >= SHARED_WEIGHTS, confirmed))
        again.align(ours, theirs)
        return again.result(ours, theirs)


def _has_lost(found: LayerMap, names: set[str]) -> bool:
    """Whether a layer of one of these names has no partner."""
    return any(path.rpartition(".")[2] in names for path in (*found.target_only, *found.golden_only))


@dataclass(slots=True)
class _Inference:
    values: Values
    pairs: list[Pairing] = field(default_factory=list)
    fused: list[Fused] = field(default_factory=list)

    def align(self, ours: Layer, theirs: Layer) -> None:
        waiting = [(ours, theirs)]
        while waiting:
            left, right = waiting.pop()
            found = self._level(left.children, right.children)
            self.pairs += found
            waiting += [(pair.ours, pair.theirs) for pair in found]

    def _level(self, ours: _Layers, theirs: _Layers, opened: int = 0) -> list[Pairing]:
        fused = fused_layers(ours, theirs, self.values)
        self.fused += fused
        used = {layer for found in fused for layer in (found.whole, *found.parts)}
        pairs, gaps = pair_siblings(
            [layer for layer in ours if layer not in used], [layer for layer in theirs if layer not in used]
        )
        for gap in gaps:
            if gap.ours and gap.theirs and opened < _DEEPEST:
                pairs += self._opened(gap, opened + 1)
        return pairs

    def _opened(self, gap: Gap, opened: int) -> list[Pairing]:
        """What is found when the largest layers give way to those inside them."""
        most = max((layer.size for layer in gap.ours), default=0), max((layer.size for layer in gap.theirs), default=0)
        ours = _open(gap.ours, most[1]) if most[0] >= most[1] else gap.ours
        theirs = _open(gap.theirs, most[0]) if most[1] >= most[0] else gap.theirs
        if ours == gap.ours and theirs == gap.theirs:
            return []
        return self._level(ours, theirs, opened)

    def result(self, ours: Layer, theirs: Layer) -> LayerMap:
        self._moved(ours, theirs)
        self.pairs.sort(key=lambda pair: pair.ours.position)
        paired = {layer for pair in self.pairs for layer in (pair.ours, pair.theirs)}
        paired |= {layer for found in self.fused for layer in (found.whole, *found.parts)} | {ours, theirs}
        return LayerMap(
            pairs=tuple(map(_described, self.pairs)),
            fused=tuple(map(_described_fusion, sorted(self.fused, key=lambda found: found.whole.position))),
            target_only=tuple(layer.path for layer in ours.below() if layer not in paired),
            golden_only=tuple(layer.path for layer in theirs.below() if layer not in paired),
        )

    def _moved(self, ours: Layer, theirs: Layer) -> None:
        """Layers of equal unique weights that stand in parts of the model which are no pair."""
        paired = {layer for pair in self.pairs for layer in (pair.ours, pair.theirs)}
        waiting = {layer.anchors: layer for layer in theirs.below() if layer.anchors and _is_free(layer, paired)}
        for layer in ours.below():
            if layer.anchors in waiting and _is_free(layer, paired):
                self.pairs.append(Pairing(layer, waiting.pop(layer.anchors), in_order=False))


def _is_free(layer: Layer, paired: set[Layer]) -> bool:
    return layer not in paired and bool(layer.parameters) and not layer.children


def _open(layers: _Layers, least: int) -> list[Layer]:
    """The list with the inner layers in place of those of at least this size."""
    return [
        inner for layer in layers for inner in (layer.children if layer.size >= least and layer.children else [layer])
    ]


def _described(pair: Pairing) -> LayerPair:
    confidence, evidence = certainty(pair.ours, pair.theirs)
    notes: list[str] = []
    alike_ours, alike_theirs = pair.rivals
    if not pair.in_order:
        confidence *= MOVED
        notes.append("stands in another place of the execution order")
    if max(pair.rivals) > 1 and confidence < 1.0:
        even = alike_ours == alike_theirs
        confidence *= BY_ORDER if even else GUESSED
        notes.append(
            f"{alike_ours} in the target and {alike_theirs} in the golden run fit as well; "
            + ("the order decides" if even else "this one is a guess")
        )
    return LayerPair(
        target=pair.ours.path,
        golden=pair.theirs.path,
        target_class=pair.ours.cls,
        golden_class=pair.theirs.cls,
        confidence=round(confidence, 3),
        evidence=(*notes, *evidence),
        parameters=parameter_names(pair.ours, pair.theirs),
    )


def _described_fusion(found: Fused) -> FusedPair:
    whole, parts = (found.whole.path,), tuple(part.path for part in found.parts)
    shapes = " + ".join(str(list(_weight(part))) for part in found.parts)
    values = "; values agree" if found.confidence > 0.9 else ""
    return FusedPair(
        target=whole if found.in_target else parts,
        golden=parts if found.in_target else whole,
        confidence=round(found.confidence, 3),
        evidence=(f"shapes add up: {shapes} = {list(_weight(found.whole))}{values}",),
    )


def _weight(layer: Layer) -> tuple[int, ...]:
    return max((seen.shape for seen in layer.parameters.values()), key=len)


__all__ = ["FusedPair", "LayerMap", "LayerPair", "infer_layer_map"]


def __getattr__(name: str) -> Any:
    if name != "infer_layer_map":  # every comparison imports the values above, few need the inference
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    return infer_layer_map
