"""A dump as a tree of its records, and back. Merging cuts and joins these trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import OF_ONE_PROCESS
from msprobe.visualize.graph.hierarchy import build_hierarchy
from msprobe.visualize.graph.node import NameCache, NodeKind


@dataclass(slots=True, eq=False)
class Branch:
    """One record with everything below it. ``body`` is None where nothing was recorded."""

    name: str
    kind: NodeKind
    body: Any = None
    stack: Sequence[str] = ()
    children: list[Branch] = field(default_factory=list)

    def walk(self) -> Iterator[Branch]:
        """Yield this branch and everything below it, children first."""
        pending: list[tuple[Branch, int]] = [(self, 0)]
        while pending:
            branch, position = pending.pop()
            if position < len(branch.children):
                pending += [(branch, position + 1), (branch.children[position], 0)]
            else:
                yield branch

    def rename(self, change: Callable[[Branch], str]) -> Branch:
        """Rename everything in this branch to what ``change`` returns, and return the branch."""
        for branch in list(self.walk()):
            branch.name = change(branch)
        return self


def to_tree(dump: Dump, names: NameCache) -> Branch:
    """Return the tree of a dump. It shares the records, which are copied when they are changed."""
    graph = build_hierarchy(dump, names)
    branches = {node: Branch(node.name, node.kind) for node in graph.nodes.values()}
    for node, branch in branches.items():
        branch.body = dump.data.get(node.name)
        branch.stack = dump.stacks.get(node.name, ())
        branch.children = [branches[child] for child in node.children]
    return branches[graph.root]


def to_dump(tree: Branch, like: Dump) -> Dump:
    """Return a dump with the records of a tree, in the order of the tree; header and place are those of ``like``.

    It holds statistics. Checksums and tensor files belong to single ranks and are left out.
    """
    data: dict[str, Any] = {}
    construct: dict[str, Any] = {}
    stacks: dict[str, list[str]] = {}
    parents = {child.name: branch for branch in tree.walk() for child in branch.children}
    for branch in tree.walk():
        if branch is tree:
            continue
        above = parents[branch.name]
        construct[branch.name] = None if above is tree else above.name
        if branch.body is not None:
            data[branch.name] = _statistics_only(branch.body)
        if branch.stack:
            stacks[branch.name] = list(branch.stack)
    task = "statistics" if like.task == "tensor" else like.task
    return dataclasses.replace(like, task=task, data=data, construct=construct, stacks=stacks)


def _statistics_only(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _statistics_only(value) for key, value in node.items() if key not in OF_ONE_PROCESS}
    return [_statistics_only(value) for value in node] if isinstance(node, list) else node
