"""Merges the trees of the stages of one pipeline into one tree.

Layers get their numbers in the whole model, and modules that several stages hold are joined, as in a comparison of
these ranks (``compare.parallel.by_name.pipeline``). The tree also has what the published format shows: chunks of
virtual stages interleave (chunk by chunk, stage by stage), and calls of other ranks than the first get ``_rankN`` after
their API name, because each rank counts its calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from msprobe.compare.parallel.by_name.pipeline import join_stage_records, layer_shifts, shift_layer
from msprobe.visualize.graph.node import BETWEEN, ROOT, NameCache, NodeKind, with_merge_notes
from msprobe.visualize.merge.record_tree import Branch

_CHUNK = re.compile(r"^((?:Module|Cell)\.)(\d+)(\..*)$")
_Children = dict[str, list[tuple[int, Branch]]]
"""Branches of one name, each with the position of its part."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the model on one rank; stages come in the order in which data flows through them."""

    rank: int
    tree: Branch


def merge_stages(stages: Sequence[Stage], names: NameCache, vpp: int = 1) -> Branch:
    """Return one tree for the stages of one pipeline; the trees of the stages are used up.

    ``vpp`` is the number of model chunks per stage.
    """
    parts = list(stages) if vpp == 1 else _split_chunks(stages)
    base = parts[0].rank
    for part in parts:
        if part.rank != base:
            part.tree.rename(lambda branch, rank=part.rank: _name_on_rank(branch, rank))  # type: ignore[misc]
    _renumber_layers(parts)
    root = Branch(ROOT, NodeKind.MODULE)
    root.children = _merge_children([part.tree for part in parts], parts, names)
    return root


def _split_chunks(stages: Sequence[Stage]) -> list[Stage]:
    """Return the chunks of virtual stages in the order of the data.

    Their modules are called as those of chunk 0; calls outside of modules go with chunk 0.
    """
    parts: list[tuple[tuple[int, int], Stage]] = []
    for position, stage in enumerate(stages):
        trees: dict[int, Branch] = {0: Branch(ROOT, NodeKind.MODULE)}
        for child in stage.tree.children:
            match = _CHUNK.match(child.name)
            chunk = int(match[2]) if match else 0
            trees.setdefault(chunk, Branch(ROOT, NodeKind.MODULE)).children.append(child)
        for chunk, tree in trees.items():
            tree.rename(lambda branch: _CHUNK.sub(r"\g<1>0\3", branch.name))
            parts.append(((chunk, position), Stage(stage.rank, tree)))
    return [stage for _, stage in sorted(parts, key=lambda item: item[0])]


def _name_on_rank(branch: Branch, rank: int) -> str:
    if branch.kind is not NodeKind.API:
        return branch.name
    head = branch.name.rsplit(".", 2)
    return f"{head[0]}_rank{rank}.{head[1]}.{head[2]}" if len(head) == 3 else f"{branch.name}_rank{rank}"


def _renumber_layers(parts: Sequence[Stage]) -> None:
    records = [{branch.name: branch.body for branch in part.tree.walk()} for part in parts]
    for part, shifts in zip(parts, layer_shifts(records, records), strict=True):
        if shifts:
            part.tree.rename(lambda branch, shifts=shifts: shift_layer(branch.name, shifts))  # type: ignore[misc]


def _merge_children(trees: Sequence[Branch], parts: Sequence[Stage], names: NameCache) -> list[Branch]:
    """Return the children of one module of all stages: forward in the order of the stages, backward against it."""
    at_root = trees[0].name == ROOT
    forward: _Children = {}
    backward: _Children = {}
    after: _Children = {}
    by_phase = {"forward": forward, "": after}
    for position, tree in enumerate(trees):
        for child in grouped(tree, parts[position].rank, names) if at_root else tree.children:
            same_phase = by_phase.get(names[_leading_name(child)].phase, backward)
            same_phase.setdefault(child.name, []).append((position, child))
    merged = [_join_branches(same_name, parts, names) for same_name in forward.values()]
    late = sorted(backward.values(), key=lambda same_name: -max(position for position, _ in same_name))
    merged += [_join_branches(same_name, parts, names) for same_name in (*late, *after.values())]
    return between(merged) if at_root else merged


def _leading_name(branch: Branch) -> str:
    """Return the name whose phase decides where a branch belongs: for collections that of their first call."""
    return branch.children[0].name if branch.kind is NodeKind.COLLECTION and branch.children else branch.name


def _join_branches(same_name: Sequence[tuple[int, Branch]], parts: Sequence[Stage], names: NameCache) -> Branch:
    """Return one branch for the equally named ones of some stages."""
    first = same_name[0][1]
    if len(same_name) == 1:
        return first
    branches = [branch for _, branch in same_name]
    joined = Branch(first.name, first.kind, first.body, first.stack)
    joined.children = _merge_children(branches, [parts[position] for position, _ in same_name], names)
    bodies = [branch.body for branch in branches if isinstance(branch.body, dict)]
    if len(bodies) > 1 and any(body != bodies[0] for body in bodies):
        ranks = [parts[position].rank for position, _ in same_name]
        enter, leave = (ranks[0], ranks[-1]) if names[first.name].phase == "forward" else (ranks[-1], ranks[0])
        notes = [f"inputs of rank {enter}, results of rank {leave}"]
        joined.body = with_merge_notes(reduce(join_stage_records, bodies), notes)
    return joined


def grouped(tree: Branch, rank: int, names: NameCache) -> list[Branch]:
    """Return the children of a root, where calls outside of modules are grouped: one branch per rank, run and phase."""
    children: list[Branch] = []
    number = 0
    for child in tree.children:
        if child.kind is not NodeKind.API:
            children.append(child)
            continue
        before = children[-1] if children and children[-1].kind is NodeKind.COLLECTION else None
        if before is None or names[_leading_name(before)].phase != names[child.name].phase:
            children.append(Branch(f"{BETWEEN}_Rank{rank}.{number}", NodeKind.COLLECTION))
            number += 1
        children[-1].children.append(child)
    return children


def between(children: Sequence[Branch]) -> list[Branch]:
    """Return the branches with neighbouring collections of different ranks as children of one of all ranks."""
    result: list[Branch] = []
    number = 0
    for child in children:
        if child.kind is not NodeKind.COLLECTION:
            result.append(child)
            continue
        if not result or result[-1].kind is not NodeKind.COLLECTION:
            result.append(Branch(f"{BETWEEN}_All_Ranks.{number}", NodeKind.COLLECTION))
            number += 1
        result[-1].children.append(child)
    return result
