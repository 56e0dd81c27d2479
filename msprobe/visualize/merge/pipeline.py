"""Pipeline stages to one model: layers of later stages follow those of earlier ones and are numbered on.

A module on every stage takes its inputs from where data enters and its results from where data leaves: forward from the
first stage to the last, backward from the last to the first. Chunks of virtual stages interleave: chunk by chunk, stage
by stage. Calls of other ranks than the first get ``_rankN`` after their API name, since each rank counts its calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.visualize.merge.tree import Branch, noted
from msprobe.visualize.names import Names
from msprobe.visualize.node import BETWEEN, ROOT, Kind

_LAYER = re.compile(r"^(.*?\.layers?\.)(\d+)(\..*)$")
_CHUNK = re.compile(r"^((?:Module|Cell)\.)(\d+)(\..*)$")


@dataclass(slots=True)
class Stage:
    """A part of the model on one rank; stages come in the order in which data flows through them."""

    rank: int
    tree: Branch


def merge_stages(stages: Sequence[Stage], names: Names, vpp: int = 1) -> Branch:
    """One tree for the stages of one pipeline; the trees of the stages are used up."""
    parts = list(stages) if vpp == 1 else _chunks(stages)
    base = parts[0].rank
    for part in parts:
        if part.rank != base:
            part.tree.rename(lambda branch, rank=part.rank: _of_rank(branch, rank))  # type: ignore[misc]
    _number_on(parts)
    root = Branch(ROOT, Kind.MODULE)
    root.children = _merged_children([part.tree for part in parts], parts, names)
    return root


def _chunks(stages: Sequence[Stage]) -> list[Stage]:
    """Virtual stages: the modules of each chunk apart, called as those of chunk 0; calls outside go with chunk 0."""
    parts: list[tuple[tuple[int, int], Stage]] = []
    for position, stage in enumerate(stages):
        trees: dict[int, Branch] = {0: Branch(ROOT, Kind.MODULE)}
        for child in stage.tree.children:
            found = _CHUNK.match(child.name)
            chunk = int(found[2]) if found else 0
            trees.setdefault(chunk, Branch(ROOT, Kind.MODULE)).children.append(child)
        for chunk, tree in trees.items():
            tree.rename(lambda branch: _CHUNK.sub(r"\g<1>0\3", branch.name))
            parts.append(((chunk, position), Stage(stage.rank, tree)))
    return [stage for _, stage in sorted(parts, key=lambda item: item[0])]


def _of_rank(branch: Branch, rank: int) -> str:
    if branch.kind is not Kind.API:
        return branch.name
    head = branch.name.rsplit(".", 2)
    return f"{head[0]}_rank{rank}.{head[1]}.{head[2]}" if len(head) == 3 else f"{branch.name}_rank{rank}"


def _number_on(parts: Sequence[Stage]) -> None:
    """Renumber layers: each stage begins where the one before ended. Layers that all stages share keep their number."""
    sizes: list[dict[str, int]] = []
    shared = _shared_layers(parts)
    for part in parts:
        found: dict[str, int] = {}
        for branch in part.tree.walk():
            match = _LAYER.match(branch.name)
            if match and match[1] not in shared:
                found[match[1]] = max(found.get(match[1], 0), int(match[2]) + 1)
        sizes.append(found)
    offsets: dict[str, int] = {}
    for part, size in zip(parts, sizes, strict=True):
        own = dict(offsets)
        part.tree.rename(lambda branch, own=own: _renumbered(branch.name, own))  # type: ignore[misc]
        for path, count in size.items():
            offsets[path] = offsets.get(path, 0) + count


def _shared_layers(parts: Sequence[Stage]) -> set[str]:
    """Paths whose layers are the same on all stages: equal values, so not split."""
    found: dict[str, bool] = {}
    first = {branch.name: branch.body for branch in parts[0].tree.walk()}
    for part in parts[1:]:
        for branch in part.tree.walk():
            match = _LAYER.match(branch.name)
            if match and branch.kind is Kind.MODULE and branch.body is not None:
                same = branch.name in first and first[branch.name] == branch.body
                found[match[1]] = found.get(match[1], True) and same
    return {path for path, same in found.items() if same}


def _renumbered(name: str, offsets: dict[str, int]) -> str:
    match = _LAYER.match(name)
    if match is None or not offsets.get(match[1]):
        return name
    return f"{match[1]}{int(match[2]) + offsets[match[1]]}{match[3]}"


def _merged_children(trees: Sequence[Branch], parts: Sequence[Stage], names: Names) -> list[Branch]:
    """Children of one module of all stages: forward in the order of the stages, backward against it."""
    at_root = trees[0].name == ROOT
    forward: dict[str, list[tuple[int, Branch]]] = {}
    backward: dict[str, list[tuple[int, Branch]]] = {}
    after: dict[str, list[tuple[int, Branch]]] = {}
    kinds = {"forward": forward, "": after}
    for position, tree in enumerate(trees):
        for child in grouped(tree, parts[position].rank, names) if at_root else tree.children:
            kinds.get(names[_leading(child)].phase, backward).setdefault(child.name, []).append((position, child))
    merged = [_joined(found, parts, names) for found in forward.values()]
    late = sorted(backward.values(), key=lambda found: -max(position for position, _ in found))
    merged += [_joined(found, parts, names) for found in (*late, *after.values())]
    return between(merged) if at_root else merged


def _leading(branch: Branch) -> str:
    """The name whose phase decides where a branch belongs: its own, that of the first call for collections."""
    return branch.children[0].name if branch.kind is Kind.COLLECTION and branch.children else branch.name


def _joined(found: Sequence[tuple[int, Branch]], parts: Sequence[Stage], names: Names) -> Branch:
    """One branch for the equally named ones of some stages."""
    first, last = found[0][1], found[-1][1]
    if len(found) == 1:
        return first
    branches = [branch for _, branch in found]
    merged = Branch(first.name, first.kind, first.body, first.stack)
    merged.children = _merged_children(branches, [parts[position] for position, _ in found], names)
    bodies = [branch.body for branch in branches if isinstance(branch.body, dict)]
    if len(bodies) > 1 and any(body != bodies[0] for body in bodies):
        forward = names[first.name].phase == "forward"
        enter, leave = (first, last) if forward else (last, first)
        merged.body = _flow(enter, leave)
        ranks = [parts[position].rank for position, _ in found]
        ends = (ranks[0], ranks[-1]) if forward else (ranks[-1], ranks[0])
        noted(merged, [f"inputs of rank {ends[0]}, results of rank {ends[1]}"])
    return merged


def _flow(enter: Branch, leave: Branch) -> dict[str, object]:
    inputs = enter.body if isinstance(enter.body, dict) else {}
    outputs = leave.body if isinstance(leave.body, dict) else {}
    body = {key: value for key, value in inputs.items() if key != "output"}
    if "output" in outputs:
        body["output"] = outputs["output"]
    return body


def grouped(tree: Branch, rank: int, names: Names) -> list[Branch]:
    """Children of a root, where calls outside of modules stand together, one branch per rank, run and phase."""
    children: list[Branch] = []
    number = 0
    for child in tree.children:
        if child.kind is not Kind.API:
            children.append(child)
            continue
        before = children[-1] if children and children[-1].kind is Kind.COLLECTION else None
        if before is None or names[_leading(before)].phase != names[child.name].phase:
            children.append(Branch(f"{BETWEEN}_Rank{rank}.{number}", Kind.COLLECTION))
            number += 1
        children[-1].children.append(child)
    return children


def between(children: Sequence[Branch]) -> list[Branch]:
    """Neighbouring collections of different ranks become one of all ranks."""
    result: list[Branch] = []
    number = 0
    for child in children:
        if child.kind is not Kind.COLLECTION:
            result.append(child)
            continue
        if not result or result[-1].kind is not Kind.COLLECTION:
            result.append(Branch(f"{BETWEEN}_All_Ranks.{number}", Kind.COLLECTION))
            number += 1
        result[-1].children.append(child)
    return result
