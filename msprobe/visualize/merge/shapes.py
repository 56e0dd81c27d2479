"""A merged tensor has the statistics of the whole but the shape of a shard; its partner knows that of the whole.

A shape is taken over when it differs in one dimension only, by the number of shards.
"""

from __future__ import annotations

from typing import Any

from msprobe.compare.items import Leaf, leaves
from msprobe.visualize.merge.tensor_parallel import SHARDS
from msprobe.visualize.node import Graph


def fit_shapes(target: Graph, golden: Graph) -> None:
    """Give merged tensors the shape of their partners. Both graphs are paired."""
    for name, body in target.dump.data.items():
        other = target.nodes[name].match
        if other is None or other.name not in golden.dump.data:
            continue
        theirs = {leaf.suffix: leaf for leaf in leaves(other.name, golden.dump.data[other.name])}
        for leaf in leaves(name, body):
            if leaf.suffix in theirs:
                _fit(leaf, theirs[leaf.suffix])


def _fit(ours: Leaf, theirs: Leaf) -> None:
    left, right = ours.raw, theirs.raw
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
    changed = [(part, all_of_it) for part, all_of_it in zip(shape, whole, strict=True) if part != all_of_it]
    return len(changed) == 1 and changed[0][0] * shards == changed[0][1]
