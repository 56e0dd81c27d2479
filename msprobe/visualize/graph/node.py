"""The graph of one process and step, its nodes (modules, calls, collections of calls), and the names of nodes.

``NameCache`` parses the names in construct.json: the kind of the node, its phase, and its name in other phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from msprobe.core.naming import NameSyntaxError, split_entry
from msprobe.core.naming.names import MODULE_PREFIXES, is_module_name
from msprobe.core.store.reader import Dump, Place

ROOT = "DefaultModel"
BETWEEN = "Apis_Between_Modules"
MERGE_NOTES = "parallel_merge_info"
"""Key in the record of a merged entry: lines that say how it was merged."""


class NodeKind(IntEnum):
    """What a node is; the numbers are those of the published format."""

    MODULE = 0
    API = 1
    COLLECTION = 9


@dataclass(slots=True)
class NodeVerdict:
    """The verdict of a comparison about a node.

    Attributes:
        own: same, pass, warning, error, unmatched, not_compared or no_data.
        rollup: the worst such verdict of the node and everything below it.
        counts: how many nodes of the subtree pass, warn, are errors, have no partner.
        error: the worst difference in multiples of what is allowed; None: unknown, 1e300: not a matter of size.
        reason: why the node is no pass, in words.
        precision: 0, 0.5, 1 or None, as the published format has it.
        excused: whether the node is on one side only and this is no difference.
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
    """One node of the graph.

    Attributes:
        order: position of its record in dump.json.
        micro: number of its micro step.
        match: its partner in the other graph.
        overflow: its level of NaN and infinities.
        link: its partners in other ranks, as JSON.
        merged: how its record was merged from those of several ranks.
    """

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
        """Return the names from the root to this node."""
        names: list[str] = []
        node: Node | None = self
        while node is not None:
            names.append(node.name)
            node = node.parent
        return names[::-1]

    def move(self, parent: Node, position: int | None = None) -> None:
        """Move this node below another parent, to ``position`` or to the end."""
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
        """Add a node as the last child of ``parent`` and return it."""
        node = self.nodes[name] = Node(name, kind, parent)
        parent.children.append(node)
        return node

    def post_order(self) -> Iterator[Node]:
        """Yield every node, children before their parent, the root last."""
        stack: list[tuple[Node, int]] = [(self.root, 0)]
        while stack:
            node, position = stack.pop()
            if position < len(node.children):
                stack.append((node, position + 1))
                stack.append((node.children[position], 0))
            else:
                yield node

    def pre_order(self) -> Iterator[Node]:
        """Yield every node, parents before their children."""
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


class NameParts(NamedTuple):
    """A parsed name.

    ``path`` is the attribute path of a module, "" for calls; ``phase`` is "" for names that are no entry names.
    """

    module: bool
    stem: str
    phase: str
    call: int | None
    path: str

    def text(self, phase: str, call: int | None = None) -> str:
        """Return the name in another phase, and of another call where its number is given."""
        number = self.call if call is None else call
        if self.module:
            return f"{self.stem}.{phase}" if number is None else f"{self.stem}.{phase}.{number}"
        return f"{self.stem}.{number}.{phase}"


class NameCache(dict[str, NameParts]):
    """Parses each name once; one object serves all graphs of a job, which share most names."""

    def __missing__(self, name: str) -> NameParts:
        parts = self[name] = _parsed_parts(name)
        return parts

    def kind(self, name: str) -> NodeKind:
        """Return the kind of a node. A name that is no entry name (optimizer, a name of the user) counts as module."""
        if name.startswith(BETWEEN):
            return NodeKind.COLLECTION
        parts = self[name]
        return NodeKind.API if parts.phase and not parts.module else NodeKind.MODULE

    def in_phase(self, name: str, phase: str) -> str:
        """Return the name of the same call in another phase; a text that is no entry name stays as it is."""
        parts = self[name]
        return parts.text(phase) if parts.phase else name


def _parsed_parts(name: str) -> NameParts:
    try:
        stem, phase, call = split_entry(name)
    except NameSyntaxError:
        return NameParts(False, name, "", None, "")
    prefix, _, rest = stem.partition(".")
    module = prefix in MODULE_PREFIXES
    return NameParts(module, stem, phase, call, rest.rpartition(".")[0] if module else "")


def is_call_of_module(name: str) -> bool:
    """Return True for names of module calls, False for APIs, the optimizer and the root."""
    return name != ROOT and is_module_name(name)
