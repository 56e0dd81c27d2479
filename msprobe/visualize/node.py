"""A node of the graph (module, call or collection of calls) and the graph of one process and step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from msprobe.core.store.reader import Dump, Place

ROOT = "DefaultModel"
BETWEEN = "Apis_Between_Modules"
MERGE_NOTES = "parallel_merge_info"
"""Key in the record of a merged entry: lines that say how it was merged."""


class NodeKind(IntEnum):
    """What a node is, by the numbers that viewers know."""

    MODULE = 0
    API = 1
    COLLECTION = 9


@dataclass(slots=True)
class NodeVerdict:
    """What comparing said about a node.

    ``own`` and ``rollup`` are same, pass, warning, error, unmatched, not_compared or no_data; ``counts`` are the nodes
    of the subtree that pass, warn, are errors or have no partner; ``error`` is the worst difference in multiples of
    what is allowed (None: unknown, 1e300: not a matter of size); ``precision`` is 0, 0.5, 1 or None for the viewers.
    ``excused`` marks what is on one side only and means nothing.
    """

    own: str = "no_data"
    rollup: str = "no_data"
    counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    error: float | None = None
    reason: str = ""
    precision: float | None = None
    excused: bool = False


@dataclass(slots=True, eq=False)
class Node:
    """One node. ``order`` is its place in dump.json, ``link`` its partners in other ranks as JSON."""

    name: str
    kind: NodeKind
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    order: int | None = None
    micro: int = 0
    stack: Sequence[str] = ()
    match: Node | None = None
    verdict: NodeVerdict | None = None
    overflow: str | None = None
    link: str = "{}"
    merged: list[str] = field(default_factory=list)

    def path(self) -> list[str]:
        """NameCache from the root to this node."""
        names: list[str] = []
        node: Node | None = self
        while node is not None:
            names.append(node.name)
            node = node.parent
        return names[::-1]

    def move(self, parent: Node, position: int | None = None) -> None:
        """Hang this node below another parent, at ``position`` or last."""
        if self.parent is not None:
            self.parent.children.remove(self)
        self.parent = parent
        parent.children.insert(len(parent.children) if position is None else position, self)


@dataclass(frozen=True, slots=True)
class Work:
    """One graph or pair of graphs to draw, with the numbers it is shown with."""

    target: Place
    golden: Place | None
    step: int
    rank: int

    @property
    def label(self) -> str:
        """The words for messages."""
        return f"step {self.step} rank {self.rank}"

    @property
    def history_key(self) -> str:
        """The key of what the same process carries from step to step."""
        return self.target.label


@dataclass(slots=True, eq=False)
class Graph:
    """The graph of one process and step; ``nodes`` holds every node by name, the root among them."""

    root: Node
    nodes: dict[str, Node]
    dump: Dump
    step: int = 0
    rank: int = 0
    micro_steps: int = 1
    megatron: bool = False
    warnings: list[str] = field(default_factory=list)

    def add(self, name: str, kind: NodeKind, parent: Node) -> Node:
        """A new last child of ``parent``."""
        node = self.nodes[name] = Node(name, kind, parent)
        parent.children.append(node)
        return node

    def post_order(self) -> Iterator[Node]:
        """Every node, children before their parent, the root last."""
        stack: list[tuple[Node, int]] = [(self.root, 0)]
        while stack:
            node, position = stack.pop()
            if position < len(node.children):
                stack.append((node, position + 1))
                stack.append((node.children[position], 0))
            else:
                yield node

    def pre_order(self) -> Iterator[Node]:
        """Every node, parents before their children."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


def with_merge_notes(body: Any, lines: Sequence[str]) -> dict[str, Any]:
    """Return a record with further lines that say how it was merged."""
    record = body if isinstance(body, dict) else {}
    return {**record, MERGE_NOTES: [*record.get(MERGE_NOTES, ()), *lines]}


def take_merge_notes(body: Any) -> list[str]:
    """Remove the lines that say how a record was merged, and return them: they are no values of the call."""
    lines = body.pop(MERGE_NOTES, []) if isinstance(body, dict) else []
    return lines if isinstance(lines, list) else []
