"""Merges the trees of one tensor-parallel group into one tree.

``merge_shards`` takes the values from ``compare.parallel.by_name.tensor_parallel``, as a comparison of these ranks
does, and adds what the published format has: calls that not all ranks make get ``_rankN`` after their name, and every
formula is noted with its numbers.

A merged tensor has the shape of a shard until ``fit_shapes`` gives it that of its partner in the other graph: when the
two shapes differ in one dimension only, by the number of shards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msprobe.compare.parallel.by_name.tensor_parallel import JoinedTensor, ShardMerge
from msprobe.core.naming.names import COMMUNICATION
from msprobe.core.store.record_walk import Leaf, leaves
from msprobe.core.tensors.statistics import STATISTICS, Merge
from msprobe.visualize.graph.node import ROOT, Graph, NameCache, NodeKind, with_merge_notes
from msprobe.visualize.merge.pipeline import between, grouped
from msprobe.visualize.merge.record_tree import Branch

SHARDS = "shards"
"""Key in a merged record: the number of parts whose statistics it holds."""

_FORMULAS = {
    Merge.LARGEST: "max",
    Merge.SMALLEST: "min",
    Merge.WEIGHTED_MEAN: "average",
    Merge.ROOT_OF_SQUARES: "root of the sum of squares",
}


def merge_shards(ranks: Sequence[int], trees: Sequence[Branch], names: NameCache, *, published: bool = False) -> Branch:
    """Return one tree for the ranks of one tensor-parallel group; the trees are used up.

    ``published`` merges by the published rules: a mean is the average of the means, and a statistic that a rank lacks
    is that of the first rank.
    """
    merge = _Merge(_shard_merge(trees), published)
    tops = [grouped(tree, rank, names) for rank, tree in zip(ranks, trees, strict=True)]
    root = Branch(ROOT, NodeKind.MODULE)
    others = [{child.name: child for child in top} for top in tops[1:]]
    for child in tops[0]:
        root.children.append(child)
        partners = [other.pop(child.name) for other in others if child.name in other]
        if child.kind is NodeKind.MODULE and len(partners) == len(others):
            _merge_branch([child, *partners], ranks, merge)
    for rank, unmatched in zip(ranks[1:], others, strict=True):
        for child in unmatched.values():
            child.rename(lambda branch, rank=rank: _name_on_rank(branch, rank))  # type: ignore[misc]
            _insert(root.children, child, tops[ranks.index(rank)])
    root.children = between(root.children)
    return root


class _Merge(NamedTuple):
    values: ShardMerge
    published: bool


def _shard_merge(trees: Sequence[Branch]) -> ShardMerge:
    records = [{branch.name: branch.body for branch in tree.walk() if branch.body is not None} for tree in trees]
    parents = {child.name: branch.name for branch in trees[0].walk() for child in branch.children}
    return ShardMerge(records, (), parents)


def _name_on_rank(branch: Branch, rank: int) -> str:
    if branch.kind is NodeKind.COLLECTION:
        return branch.name
    head = branch.name.rsplit(".", 2)
    return f"{head[0]}_rank{rank}.{head[1]}.{head[2]}" if len(head) == 3 else f"{branch.name}_rank{rank}"


def _insert(children: list[Branch], child: Branch, siblings: Sequence[Branch]) -> None:
    """Insert a child behind the neighbour that it has on its own rank; last where that is missing.

    ``siblings`` are the children on its own rank.
    """
    position = next(number for number, branch in enumerate(siblings) if branch is child)
    before = {branch.name for branch in siblings[max(position - 1, 0) : position]}
    for number, branch in enumerate(children):
        if branch.name in before:
            while number + 1 < len(children) and children[number + 1].kind is NodeKind.COLLECTION is child.kind:
                number += 1
            children.insert(number + 1, child)
            return
    children.append(child)


def _merge_branch(branches: Sequence[Branch], ranks: Sequence[int], merge: _Merge) -> None:
    """Merge equally named branches of all ranks into the first of them."""
    pending = [list(branches)]
    while pending:
        group = pending.pop()
        base = group[0]
        if not base.name.startswith(COMMUNICATION):
            _merge_records(base, [branch.body for branch in group], ranks, merge)
        others = [{child.name: child for child in branch.children} for branch in group[1:]]
        for child in base.children:
            partners = [other.pop(child.name) for other in others if child.name in other]
            if len(partners) == len(others):
                pending.append([child, *partners])
        for rank, unmatched in zip(ranks[1:], others, strict=True):
            for child in unmatched.values():
                base.children.append(child.rename(lambda branch, rank=rank: _name_on_rank(branch, rank)))  # type: ignore[misc]


def _merge_records(base: Branch, bodies: Sequence[Any], ranks: Sequence[int], merge: _Merge) -> None:
    """Put the merged record into ``base``, with notes on how its tensors were joined."""
    if not all(isinstance(body, dict) for body in bodies):
        return
    body, joined = merge.values.joined_entry(base.name, bodies)
    if not all(STATISTICS[0].name in part for tensor in joined for part in tensor.parts):
        return  # checksums: nothing follows from those of parts
    base.body = body
    formulas: list[str] = []
    for tensor in joined:
        if tensor.collective:
            continue
        record = _record_at(body, tensor.path)
        record["shape"] = tensor.parts[0]["shape"]
        record[SHARDS] = len(tensor.parts)
        if merge.published:
            record.update(_published_statistics(record, tensor.parts))
        place = f"{base.name}.{'.'.join(map(str, tensor.path))}"
        formulas += _formulas(record, tensor, place, weighted=not merge.published)
    collectives = dict.fromkeys(tensor.collective for tensor in joined if tensor.collective)
    notes = [f"result of {name}" for name in collectives]
    if formulas:
        notes += [f"ranks {', '.join(map(str, ranks))}", *formulas]
    if notes:
        base.body = with_merge_notes(base.body, notes)


def _record_at(body: Any, path: Sequence[Any]) -> dict[str, Any]:
    for key in path:
        body = body[key]
    record: dict[str, Any] = body
    return record


def _published_statistics(whole: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the statistics in which the published rules differ from ``whole``."""
    result: dict[str, Any] = {}
    for spec in STATISTICS:
        values: list[Any] = [part.get(spec.name) for part in parts]
        if whole.get(spec.name) is None or None in values:
            result[spec.name] = values[0]
        elif spec.merge is Merge.WEIGHTED_MEAN:
            result[spec.name] = math.fsum(values) / len(values)
    return result


def _formulas(whole: Mapping[str, Any], tensor: JoinedTensor, place: str, *, weighted: bool) -> list[str]:
    """Return a line per statistic: how it follows from those of the parts."""
    if any(whole[spec.name] is None for spec in STATISTICS):
        return [f"{place}: not merged, statistics are missing on a rank"]
    uneven = weighted and len(set(tensor.sizes)) > 1
    lines = []
    for spec in STATISTICS:
        values = [part.get(spec.name) for part in tensor.parts]
        weights = f" weighted by {list(tensor.sizes)} elements" if uneven and spec.merge is Merge.WEIGHTED_MEAN else ""
        lines.append(f"{place}.{spec.name} = {_FORMULAS[spec.merge]} of {values}{weights} = {whole[spec.name]}")
    return lines


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
