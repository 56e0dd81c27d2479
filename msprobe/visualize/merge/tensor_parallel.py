"""Shards of one tensor-parallel group to one model: values that differ between the ranks become those of the whole.

With shards x_r of one tensor: Max = max Max(x_r), Min = min Min(x_r), Norm = sqrt(sum Norm(x_r)^2), and
Mean = the average of Mean(x_r), which holds for shards of equal size. Every formula is noted with its numbers.
What a row-parallel layer computes is a part of a sum: its result is that of the reduction that follows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msprobe.analyze.communication import COMMUNICATION
from msprobe.compare.recorded_number import as_float
from msprobe.visualize.merge.pipeline import between, grouped
from msprobe.visualize.merge.tree import Branch, noted
from msprobe.visualize.names import Names
from msprobe.visualize.node import ROOT, Kind

SHARDS = "shards"
_STATISTICS = ("Max", "Min", "Mean", "Norm")
_SAME = 1e-6
_COLUMN, _ROW = "ColumnParallel", "RowParallel"
_MATMUL = ("linear", "matmul", "mm", "bmm", "__matmul__", "addmm")
_REDUCE = ("all_reduce", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor")


def merge_shards(ranks: Sequence[int], trees: Sequence[Branch], names: Names) -> Branch:
    """One tree for the ranks of one tensor-parallel group; the trees are used up."""
    tops = [grouped(tree, rank, names) for rank, tree in zip(ranks, trees, strict=True)]
    root = Branch(ROOT, Kind.MODULE)
    first = tops[0]
    others = [{child.name: child for child in top} for top in tops[1:]]
    for child in first:
        root.children.append(child)
        found = [other.pop(child.name) for other in others if child.name in other]
        if child.kind is Kind.MODULE and len(found) == len(others):
            _merge_branch([child, *found], ranks, names)
    for rank, left in zip(ranks[1:], others, strict=True):
        for child in left.values():
            child.rename(lambda branch, rank=rank: _of_rank(branch, rank))  # type: ignore[misc]
            _insert(root.children, child, tops[ranks.index(rank)])
    root.children = between(root.children)
    return root


def _of_rank(branch: Branch, rank: int) -> str:
    if branch.kind is Kind.COLLECTION:
        return branch.name
    head = branch.name.rsplit(".", 2)
    return f"{head[0]}_rank{rank}.{head[1]}.{head[2]}" if len(head) == 3 else f"{branch.name}_rank{rank}"


def _insert(children: list[Branch], child: Branch, origin: Sequence[Branch]) -> None:
    """After the same neighbour as on its own rank; last when that is not there."""
    position = next(number for number, branch in enumerate(origin) if branch is child)
    before = {branch.name for branch in origin[max(position - 1, 0) : position]}
    for number, branch in enumerate(children):
        if branch.name in before:
            while number + 1 < len(children) and children[number + 1].kind is Kind.COLLECTION is child.kind:
                number += 1
            children.insert(number + 1, child)
            return
    children.append(child)


def _merge_branch(branches: Sequence[Branch], ranks: Sequence[int], names: Names) -> None:
    """Merge equally named branches of all ranks into the first of them."""
    pending = [list(branches)]
    while pending:
        group = pending.pop()
        base = group[0]
        for branch in group:
            _take_reduced(branch, names)
        if not base.name.startswith(COMMUNICATION):
            _merge_body(base, [branch.body for branch in group], ranks)
        others = [{child.name: child for child in branch.children} for branch in group[1:]]
        for child in base.children:
            found = [other.pop(child.name) for other in others if child.name in other]
            if len(found) == len(others):
                pending.append([child, *found])
        for rank, left in zip(ranks[1:], others, strict=True):
            for child in left.values():
                base.children.append(child.rename(lambda branch, rank=rank: _of_rank(branch, rank)))  # type: ignore[misc]


def _merge_body(base: Branch, bodies: Sequence[Any], ranks: Sequence[int]) -> None:
    if not all(isinstance(body, dict) for body in bodies):
        return
    body = copy.deepcopy(base.body)
    lines: list[str] = []
    sharded = _sharded(base.name)
    for place, leaf in _tensors(body):
        others = [_at(other, place) for other in bodies]
        if any(not isinstance(other, dict) or "Max" not in other for other in others):
            continue
        if sharded(place) or any(_differ(leaf, other) for other in others[1:]):
            lines += _combine(leaf, others, f"{base.name}.{'.'.join(map(str, place))}")
    if lines:
        base.body = body
        noted(base, [f"ranks {', '.join(map(str, ranks))}", *lines])


def _sharded(name: str) -> Callable[[tuple[Any, ...]], bool]:
    """Which values are shards even where their statistics agree: all of a column-parallel layer but its input, all of a
    row-parallel one but its result and bias."""
    if _COLUMN in name:
        outer = "input_args" if ".forward" in name else "output"
    elif _ROW in name:
        outer = "output" if ".forward" in name else "input"
    else:
        return lambda place: False
    return lambda place: place[0] != outer and not (_ROW in name and "bias" in place)


def _tensors(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Places and descriptions of all tensors with statistics in a record."""
    pending: list[tuple[tuple[Any, ...], Any]] = [(place, node)]
    while pending:
        at, found = pending.pop()
        if isinstance(found, dict):
            if "dtype" in found and "Max" in found:
                yield at, found
                continue
            pending += [((*at, key), value) for key, value in found.items()]
        elif isinstance(found, list):
            pending += [((*at, number), value) for number, value in enumerate(found)]


def _at(body: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        in_list = isinstance(body, list) and isinstance(key, int) and key < len(body)
        if not in_list and not (isinstance(body, dict) and key in body):
            return None
        body = body[key]
    return body


def _differ(left: dict[str, Any], right: dict[str, Any]) -> bool:
    for key in _STATISTICS:
        ours, theirs = left.get(key), right.get(key)
        if ours == theirs:
            continue
        numbers = isinstance(ours, (int, float)) and isinstance(theirs, (int, float))
        if key in ("Max", "Min") or not numbers or not math.isclose(as_float(ours), as_float(theirs), rel_tol=_SAME):
            return True
    return False


def _combine(leaf: dict[str, Any], shards: Sequence[dict[str, Any]], place: str) -> list[str]:
    """Put the statistics of the whole into ``leaf``; returns the formulas. Missing numbers leave it as it is."""
    columns = {key: [shard.get(key) for shard in shards] for key in _STATISTICS}
    if not all(isinstance(value, (int, float)) for values in columns.values() for value in values):
        return [f"{place}: not merged, statistics are missing on a rank"]
    numbers = {key: [as_float(value) for value in values] for key, values in columns.items()}
    whole = {
        "Max": (max(numbers["Max"]), "max"),
        "Min": (min(numbers["Min"]), "min"),
        "Mean": (sum(numbers["Mean"]) / len(shards), "average"),
        "Norm": (math.sqrt(sum(value * value for value in numbers["Norm"])), "root of the sum of squares"),
    }
    for key, (value, _) in whole.items():
        leaf[key] = value
    leaf[SHARDS] = len(shards)
    return [f"{place}.{key} = {how} of {numbers[key]} = {value}" for key, (value, how) in whole.items()]


def _take_reduced(module: Branch, names: Names) -> None:
    """In a row-parallel forward or column-parallel backward call, the matmul gets the result of the reduction."""
    forward = names[module.name].phase == "forward"
    if not ((forward and _ROW in module.name) or (not forward and _COLUMN in module.name)):
        return
    reduced = next((child for child in module.children if _api(child.name) in _REDUCE), None)
    product = next((child for child in module.children if _api(child.name) in _MATMUL), None)
    if reduced is None or product is None or not isinstance(reduced.body, dict) or "output" not in reduced.body:
        return
    results = product.body.get("output") if isinstance(product.body, dict) else None
    whole = reduced.body["output"]
    if not isinstance(results, list) or not isinstance(whole, list) or not whole:
        return
    position = next((number for number, result in enumerate(results) if _shape(result) == _shape(whole[0])), None)
    if position is not None:
        product.body = {**product.body, "output": [*results[:position], whole[0], *results[position + 1 :]]}
        noted(product, [f"result of {reduced.name}"])


def _shape(raw: Any) -> Any:
    return raw.get("shape") if isinstance(raw, dict) else None


def _api(name: str) -> str:
    parts = name.split(".", 2)
    return parts[1] if parts[0] not in ("Module", "Cell") and len(parts) > 2 else ""
