"""Fused layers as rules of a layer mapping: ``qkv: q_proj + k_proj + v_proj``, below the class that holds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msprobe.compare.alignment.layer_mapping import PLUS, TOP
from msprobe.compare.inference.layer_map import FusedPair, LayerMap

FusedRules = dict[str, dict[tuple[str, str], list[FusedPair]]]
"""Class of the target, or ``TopLayer``, to left and right side, to the fused layers it stands for."""
_Rule = tuple[str, str, str]


def fused_rules(layer_map: LayerMap) -> FusedRules:
    """One rule for all fused layers that read alike; one that would not hold for another module of its class names the
    whole paths."""
    near = [next(_fused_layer_rules(layer_map, pair)) for pair in layer_map.fused]
    rights: dict[tuple[str, str], set[str]] = {}
    for section, left, right in near:
        rights.setdefault((section, left), set()).add(right)
    found: FusedRules = {}
    for pair, rule in zip(layer_map.fused, near, strict=True):
        section, left, right = rule if len(rights[rule[:2]]) == 1 else _whole(pair)
        found.setdefault(section, {}).setdefault((left, right), []).append(pair)
    return found


def _fused_layer_rules(layer_map: LayerMap, pair: FusedPair) -> Iterator[_Rule]:
    """How the pair reads in the section of each paired module around it, the nearest first, and with whole paths."""
    path = pair.target[0]
    while path := path.rpartition(".")[0]:
        above = layer_map.by_target.get(path)
        if above is not None and above.target_class and above.golden:
            left, right = _below(path, pair.target), _below(above.golden, pair.golden)
            if left and right:
                yield above.target_class, left, right
    yield _whole(pair)


def _whole(pair: FusedPair) -> _Rule:
    return TOP, PLUS.join(pair.target), PLUS.join(pair.golden)


def _below(above: str, paths: Sequence[str]) -> str:
    """The paths without that of the module around them; nothing when it is not around all of them."""
    if not all(path.startswith(f"{above}.") for path in paths):
        return ""
    return PLUS.join(path[len(above) + 1 :] for path in paths)
