"""Inference of the layer map of two dumps: which module of one model stands for which of the other, without a file.

    layer_map = infer_layer_map(target, golden)          # two loaded dumps, of one framework or of two
    for pair in layer_map.pairs:
        print(pair.target, pair.golden, pair.confidence, pair.evidence)

The module trees of both dumps are aligned level by level from the root. On each level the children of a pair are
aligned (``match_layers``). What is left over may be fused (``fused_layers``), or wrapped: then a layer is replaced by
the layers inside it, and the alignment is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msprobe.compare.alignment.layer_map import FusedPair, LayerMap, LayerPair
from msprobe.compare.layer_inference.fused_layers import CONFIRMED, Fusion, Values, fused_layers
from msprobe.compare.layer_inference.layer_similarity import certainty, parameter_names
from msprobe.compare.layer_inference.layer_tree import Counted, Layer, build_tree
from msprobe.compare.layer_inference.match_layers import Gap, Pairing, pair_siblings, place_anchors
from msprobe.core.host import paused_gc
from msprobe.core.store.reader import Dump

_SHARED_WEIGHTS = 0.3
"""The share of layers with anchors above which the two runs have the same weights."""
_BY_ORDER, _GUESSED, _OUT_OF_ORDER = 0.9, 0.5, 0.9
"""Factors that lower the confidence of a pair."""
_DEEPEST = 64
_Layers = Sequence[Layer]


def infer_layer_map(target: Dump, golden: Dump) -> LayerMap:
    """Return which module of ``target`` stands for which of ``golden``, with confidence and evidence for each pair.

    Names, classes, parameter and output shapes, values and the order of execution all count; none of them is required.
    Dumps without module entries (level L1) give an empty map.
    """
    with paused_gc():
        multisets: dict[Counted, Counted] = {}
        roots = build_tree(target, multisets), build_tree(golden, multisets)
        same_weights = place_anchors(*roots) >= _SHARED_WEIGHTS
        first = _Inference(Values(same_weights))
        first.align(*roots)
        layer_map = first.result(*roots)
        confirmed = frozenset(fusion.names for fusion in first.fusions if fusion.confidence >= CONFIRMED)
        if not _has_unpaired(layer_map, {whole for whole, *_ in confirmed}):
            return layer_map
        second = _Inference(Values(same_weights, confirmed))
        second.align(*roots)
        return second.result(*roots)


def _has_unpaired(layer_map: LayerMap, names: set[str]) -> bool:
    """Return whether a layer of one of these names has no partner."""
    return any(path.rpartition(".")[2] in names for path in (*layer_map.target_only, *layer_map.golden_only))


@dataclass(slots=True)
class _Inference:
    """The pairs and fusions that have been found so far."""

    values: Values
    pairs: list[Pairing] = field(default_factory=list)
    fusions: list[Fusion] = field(default_factory=list)

    def align(self, target: Layer, golden: Layer) -> None:
        """Pair the layers of two trees, level by level."""
        pending = [(target, golden)]
        while pending:
            left, right = pending.pop()
            pairs = self._level_pairs(left.children, right.children)
            self.pairs += pairs
            pending += [(pair.target, pair.golden) for pair in pairs]

    def _level_pairs(self, target: _Layers, golden: _Layers, opened: int = 0) -> list[Pairing]:
        fusions = fused_layers(target, golden, self.values)
        self.fusions += fusions
        used = {layer for fusion in fusions for layer in (fusion.whole, *fusion.parts)}
        pairs, gaps = pair_siblings(
            [layer for layer in target if layer not in used], [layer for layer in golden if layer not in used]
        )
        for gap in gaps:
            if gap.target and gap.golden and opened < _DEEPEST:
                pairs += self._pairs_inside(gap, opened + 1)
        return pairs

    def _pairs_inside(self, gap: Gap, opened: int) -> list[Pairing]:
        """Return the pairs that there are when the largest layers are replaced by the layers inside them."""
        most = (
            max((layer.size for layer in gap.target), default=0),
            max((layer.size for layer in gap.golden), default=0),
        )
        target = _open(gap.target, most[1]) if most[0] >= most[1] else gap.target
        golden = _open(gap.golden, most[0]) if most[1] >= most[0] else gap.golden
        if target == gap.target and golden == gap.golden:
            return []
        return self._level_pairs(target, golden, opened)

    def result(self, target: Layer, golden: Layer) -> LayerMap:
        """Return the layer map of the two trees."""
        self._add_moved_layers(target, golden)
        self.pairs.sort(key=lambda pair: pair.target.position)
        paired = {layer for pair in self.pairs for layer in (pair.target, pair.golden)}
        paired |= {layer for fusion in self.fusions for layer in (fusion.whole, *fusion.parts)} | {target, golden}
        return LayerMap(
            pairs=tuple(map(_layer_pair, self.pairs)),
            fused=tuple(map(_fused_pair, sorted(self.fusions, key=lambda fusion: fusion.whole.position))),
            target_only=tuple(layer.path for layer in target.subtree() if layer not in paired),
            golden_only=tuple(layer.path for layer in golden.subtree() if layer not in paired),
        )

    def _add_moved_layers(self, target: Layer, golden: Layer) -> None:
        """Pair the layers of equal unique weights that are in parts of the model which are no pair."""
        paired = {layer for pair in self.pairs for layer in (pair.target, pair.golden)}
        unpaired = {layer.anchors: layer for layer in golden.subtree() if layer.anchors and _is_free(layer, paired)}
        for layer in target.subtree():
            if layer.anchors in unpaired and _is_free(layer, paired):
                self.pairs.append(Pairing(layer, unpaired.pop(layer.anchors), in_order=False))


def _is_free(layer: Layer, paired: set[Layer]) -> bool:
    return layer not in paired and bool(layer.parameters) and not layer.children


def _open(layers: _Layers, least: int) -> list[Layer]:
    """Return the layers, with the inner layers in place of those of at least this size."""
    return [
        inner for layer in layers for inner in (layer.children if layer.size >= least and layer.children else [layer])
    ]


def _layer_pair(pair: Pairing) -> LayerPair:
    """Return a pair with its confidence and evidence."""
    confidence, evidence = certainty(pair.target, pair.golden)
    notes: list[str] = []
    target_rivals, golden_rivals = pair.rivals
    if not pair.in_order:
        confidence *= _OUT_OF_ORDER
        notes.append("stands in another place of the execution order")
    if max(pair.rivals) > 1 and confidence < 1.0:
        even = target_rivals == golden_rivals
        confidence *= _BY_ORDER if even else _GUESSED
        notes.append(
            f"{target_rivals} in the target and {golden_rivals} in the golden run fit as well; "
            + ("the order decides" if even else "this one is a guess")
        )
    return LayerPair(
        target=pair.target.path,
        golden=pair.golden.path,
        target_class=pair.target.cls,
        golden_class=pair.golden.cls,
        confidence=round(confidence, 3),
        evidence=(*notes, *evidence),
        parameters=parameter_names(pair.target, pair.golden),
    )


def _fused_pair(fusion: Fusion) -> FusedPair:
    """Return a fusion with its evidence."""
    whole, parts = (fusion.whole.path,), tuple(part.path for part in fusion.parts)
    shapes = " + ".join(str(list(_weight_shape(part))) for part in fusion.parts)
    values = "; values agree" if fusion.confidence > 0.9 else ""
    return FusedPair(
        target=whole if fusion.in_target else parts,
        golden=parts if fusion.in_target else whole,
        confidence=round(fusion.confidence, 3),
        evidence=(f"shapes add up: {shapes} = {list(_weight_shape(fusion.whole))}{values}",),
    )


def _weight_shape(layer: Layer) -> tuple[int, ...]:
    return max((tensor.shape for tensor in layer.parameters.values()), key=len)
