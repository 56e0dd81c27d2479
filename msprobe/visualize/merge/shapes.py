"""Shapes of merged tensors: a merged tensor has the shape of a shard until its partner shows that of the whole.

The shape of the partner is taken when it differs in one dimension only, by the number of shards.
"""

from __future__ import annotations

from typing import Any

from msprobe.compare.items import Leaf, leaves
from msprobe.visualize.merge.tensor_parallel import SHARDS
from msprobe.visualize.node import Graph


def fit_shapes(target: Graph, golden: Graph) -> None:
    """Give merged tensors the shape of their partners. Both graphs are paired already."""
    for name, body in target.dump.data.items():
        other = target.nodes[name].match
        if other is None or other.name not in golden.dump.data:
            continue
        partners = {leaf.suffix: leaf for leaf in leaves(other.name, golden.dump.data[other.name])}
        for leaf in leaves(name, body):
            if leaf.suffix in partners:
                _fit(leaf, partners[leaf.suffix])


def _fit(target: Leaf, golden: Leaf) -> None:
    left, right = target.raw, golden.raw
    if not isinstance(left, dict) or not isinstance(right, dict):
        return
    for own, other in ((left, right), (right, left)):
        if _is_shard(own, other):
            own["shape"] = other["shape"]


def _is_shard(own: dict[str, Any], other: dict[str, Any]) -> bool:
    shape, whole = own.get("shape"), other.get("shape")
    shards = own.get(SHARDS, 1) // other.get(SHARDS, 1)
    if shards < 2 or not isinstance(shape, list) or not isinstance(whole, list) or len(shape) != len(whole):
        return False
    changed = [(part, full) for part, full in zip(shape, whole, strict=True) if part != full]
    return len(changed) == 1 and changed[0][0] * shards == changed[0][1]
