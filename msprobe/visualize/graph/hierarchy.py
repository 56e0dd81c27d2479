"""The parents of all nodes: construct.json, repaired where it is incomplete, contradicts itself or is missing.

Children have the order of construct.json. Each kind of repair that changes the picture gives one warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msprobe.core.naming import Phase
from msprobe.core.store.reader import Dump
from msprobe.visualize.graph.node import ROOT, Graph, NameCache, Node, NodeKind, is_call_of_module

MICRO_KEY = "megatron_micro_step_number"
_FORWARD, _BACKWARD, _GRADS = Phase.FORWARD.value, Phase.BACKWARD.value, Phase.PARAMETERS_GRAD.value
_MAX_NAMES = 5


def build_hierarchy(dump: Dump, names: NameCache, *, step: int = 0, rank: int = 0) -> Graph:
    """Return the graph of a dump with nothing but its tree; ``step`` and ``rank`` are the numbers it is shown with."""
    root = Node(ROOT, NodeKind.MODULE)
    graph = Graph(root, {ROOT: root}, dump, step, rank)
    _Hierarchy(graph, names).build()
    return graph


class _Hierarchy:
    """Builds the tree of a graph: every name of construct.json and dump.json below its parent."""

    def __init__(self, graph: Graph, names: NameCache) -> None:
        self._graph, self._names = graph, names
        self._parents: dict[str, str | None] = {}
        self._micro: dict[str, int] = {}
        self._invalid_parent: list[str] = []

    def build(self) -> None:
        """Fill the graph from the documents of its dump."""
        graph, data = self._graph, self._graph.dump.data
        self._read(graph.dump.construct)
        lacking = [name for name in data if name not in self._parents and self._names[name].phase != _GRADS]
        if self._parents and lacking:
            self._warn("has no parent in construct.json and is shown where its name says", lacking)
        self._derive([*self._invalid_parent, *lacking])
        self._repair_backward()
        self._cut_cycles()
        self._build_tree()
        missing = [name for name in data if name not in graph.nodes]
        if missing:
            self._add_gradients(missing)

    def _read(self, construct: Mapping[str, Any]) -> None:
        uncounted: list[str] = []
        for name, value in construct.items():
            if name == MICRO_KEY:
                self._read_micro_steps(value)
            elif name != ROOT:  # which has no parent
                parent, micro = _parent_and_micro_step(value)
                self._read_parent(name, parent)
                if _is_count(micro):
                    self._micro[name] = micro
                elif micro is not None:
                    uncounted.append(name)
        if self._invalid_parent:
            text = "has a parent in construct.json that is no name and is shown where its own says"
            self._warn(text, self._invalid_parent)
        if uncounted:
            self._warn("has a micro step in construct.json that is no number and is shown in the first", uncounted)

    def _read_micro_steps(self, last: Any) -> None:
        graph = self._graph
        graph.megatron = True
        graph.micro_steps = last + 1 if _is_count(last) else 1
        if not _is_count(last):
            graph.warnings.append(f"{MICRO_KEY} in construct.json is no number; one micro step is shown")

    def _read_parent(self, name: str, parent: Any) -> None:
        named = isinstance(parent, str) and parent != ""
        self._parents[name] = parent if named and parent != ROOT else None
        if not named and parent is not None:
            self._invalid_parent.append(name)

    # Repairs

    def _derive(self, lacking: list[str]) -> None:
        """Set the parents of modules that have none in the file: the call of the nearest module above, by path."""
        paths: dict[tuple[str, str, int | None], str] = {}
        for name in (*self._parents, *lacking):
            parts = self._names[name]
            if parts.module:
                paths.setdefault((parts.path, parts.phase, parts.call), name)
        for name in lacking:
            parts = self._names[name]
            parent, path = None, parts.path
            while parts.module and path and parent is None:
                path = path.rpartition(".")[0]
                parent = paths.get((path, parts.phase, parts.call))
            self._parents[name] = parent if parent != name else None

    def _repair_backward(self) -> None:
        """Set the parents of backward calls whose hook ran too late or never, from those of their forward calls."""
        parents, in_phase = self._parents, self._names.in_phase
        for name, parent in list(parents.items()):
            if self._names[name].phase != _BACKWARD:
                continue
            if parent is not None and not self._is_elsewhere(name, parent):
                continue
            forward = in_phase(name, _FORWARD)
            above = parents.get(forward)
            if above is None:
                if parent is not None and forward in parents:
                    parents[name] = None
                continue
            candidate = in_phase(above, _BACKWARD)
            if candidate in parents and candidate != name:
                parents[name] = candidate

    def _is_elsewhere(self, name: str, parent: str) -> bool:
        """Return whether the paths of a backward module and its parent contradict each other."""
        own, above = self._names[name], self._names[parent]
        return own.module and above.module and own.path.rpartition(".")[0] != above.path

    def _cut_cycles(self) -> None:
        """Move nodes that are their own ancestors below the root."""
        state: dict[str, int] = {}
        cut: list[str] = []
        for number, start in enumerate(self._parents, 1):
            name: str | None = start
            while name is not None and name in self._parents and name not in state:
                state[name] = number
                name = self._parents[name]
            if name is not None and state.get(name) == number:  # back at a name of the same walk
                cut.append(name)
                self._parents[name] = None
        if cut:
            self._warn("is its own ancestor in construct.json and is shown below the model", cut)

    # The tree

    def _build_tree(self) -> None:
        graph, parents = self._graph, self._parents
        unknown: list[str] = []
        for name, parent in parents.items():
            above = graph.root
            if parent is not None:
                if parent not in parents and parent not in graph.nodes and is_call_of_module(parent):
                    unknown.append(parent)
                above = self._node(parent)
            node = graph.nodes.get(name)
            if node is None:
                graph.add(name, self._names.kind(name), above)
            elif node.parent is None:
                node.parent = above
                above.children.append(node)
        for node in graph.nodes.values():  # parents that construct.json names but does not list
            if node.parent is None and node is not graph.root:
                node.parent = graph.root
                graph.root.children.append(node)
        for name, micro in self._micro.items():
            graph.nodes[name].micro = micro
        if unknown:
            self._warn("is a parent that construct.json does not list, shown below the model", unknown)

    def _node(self, name: str) -> Node:
        """Return the node of a parent, created where its own line comes later; that line sets its parent."""
        graph = self._graph
        node = graph.nodes.get(name)
        if node is None:
            node = graph.nodes[name] = Node(name, self._names.kind(name))
            if name not in self._parents:
                node.parent = graph.root
                graph.root.children.append(node)
        return node

    def _add_gradients(self, missing: list[str]) -> None:
        """Add parameter gradients as the last children of the last backward calls of their modules."""
        last: dict[tuple[str, str], tuple[int, Node]] = {}
        for name, node in self._graph.nodes.items():
            parts = self._names[name]
            if parts.module:
                last[parts.stem, parts.phase] = max(
                    last.get((parts.stem, parts.phase), (-1, node)), (parts.call or 0, node), key=lambda item: item[0]
                )
        for name in missing:
            stem = self._names[name].stem
            _, above = last.get((stem, _BACKWARD)) or last.get((stem, _FORWARD)) or (0, self._graph.root)
            self._graph.add(name, NodeKind.MODULE, above)

    def _warn(self, text: str, names: list[str]) -> None:
        shown = ", ".join(names[:_MAX_NAMES])
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        self._graph.warnings.append(f"{shown}{more}: {text}")


def _parent_and_micro_step(value: Any) -> tuple[Any, Any]:
    """Return parent and micro step of a line; None for what it does not hold."""
    if not isinstance(value, list):
        return value, None
    return value[0] if value else "", value[1] if len(value) > 1 else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
