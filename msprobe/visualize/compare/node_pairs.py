"""Which node of one graph is the partner of which node of the other.

Recorded nodes follow the pairs of the comparison. Nodes without a record (the root, collections, modules whose data
was filtered) follow their children, else their name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msprobe.compare.alignment.protocol import Alignment, Positions, Side
from msprobe.compare.records.entries import EntryPair
from msprobe.core.naming.names import COMMUNICATION
from msprobe.visualize.graph.node import Graph, NameCache, Node, NodeKind

_RANK_SUFFIX = re.compile(r"_rank\d+(?=\.|$)")


class NodePairs:
    """The pairs of two graphs as an alignment strategy of the comparison."""

    def __init__(self, target: Graph) -> None:
        self._nodes = target.nodes

    def align(self, target: Side, golden: Side) -> Alignment:
        """Return the pairs of entries whose nodes are partners."""
        golden_index = {key.name: index for index, key in enumerate(golden.keys)}
        pairs: Positions = []
        for index, key in enumerate(target.keys):
            match = self._nodes[key.name].match
            other = None if match is None else golden_index.get(match.name)
            if other is not None:
                pairs.append((index, other))
        return Alignment(pairs)


def pair_exactly(target: Graph, golden: Graph) -> None:
    """Pair nodes of the same name below the same ancestors, as the published tool does."""
    _pair(target.root, golden.root)
    for node in target.pre_order():
        if node.parent is None:
            continue
        other = golden.nodes.get(node.name)
        above = node.parent.match
        if other is not None and above is not None and other.parent is above:
            _pair(node, other)


def pair_fuzzily(target: Graph, golden: Graph, names: NameCache) -> None:
    """Pair nodes as the published tool does with ``-fm``.

    Modules pair by name wherever they are; calls inside two paired modules by their name without number, in their
    order.
    """
    _pair(target.root, golden.root)
    for node in target.nodes.values():
        other = golden.nodes.get(node.name)
        if node.kind is not NodeKind.API and other is not None and other.kind is not NodeKind.API:
            _pair(node, other)
    for node in target.nodes.values():
        if node.kind is NodeKind.API or node.match is None:
            continue
        unpaired = dict(_with_occurrence(node.match.children, names))
        for key, call in _with_occurrence(node.children, names):
            other = unpaired.get(key)
            if other is not None:
                _pair(call, other)


def pair_merged(target: Graph, golden: Graph, names: NameCache) -> None:
    """Pair merged ranks as ``pair_fuzzily``, whatever the rank of a call; calls outside of modules are one list."""
    pair_fuzzily(target, golden, names)
    unpaired = dict(_with_occurrence(_calls_outside(golden), names))
    for key, call in _with_occurrence(_calls_outside(target), names):
        other = unpaired.get(key)
        if other is not None:
            _pair(call, other)
    _complete(target, golden)


def is_of_layout_only(node: Node) -> bool:
    """Return whether a call exists because of the layout: communication, or a call that a rank makes for itself."""
    return node.name.startswith(COMMUNICATION) or _RANK_SUFFIX.search(node.name) is not None


def _calls_outside(graph: Graph) -> Iterator[Node]:
    """Yield the calls that are in no module."""
    pending = list(reversed(graph.root.children))
    while pending:
        node = pending.pop()
        if node.kind is NodeKind.API:
            yield node
        elif node.kind is NodeKind.COLLECTION:
            pending.extend(reversed(node.children))


def _with_occurrence(children: Iterable[Node], names: NameCache) -> Iterable[tuple[tuple[str, str, int], Node]]:
    counted: Counter[tuple[str, str]] = Counter()
    for node in children:
        if node.kind is NodeKind.API:
            parts = names[node.name]
            key = (_RANK_SUFFIX.sub("", parts.stem), parts.phase)
            yield (*key, counted[key]), node
            counted[key] += 1


def pair_by_entries(target: Graph, golden: Graph, entries: Iterable[EntryPair]) -> None:
    """Pair nodes as their recorded entries are paired, then the nodes that have no record."""
    _pair(target.root, golden.root)
    for pair in entries:
        if pair.target is not None and pair.golden is not None:
            _pair(target.nodes[pair.target], golden.nodes[pair.golden])
    _complete(target, golden)


def _complete(target: Graph, golden: Graph) -> None:
    """Pair nodes without a record by their children, else by their name."""
    recorded, other_recorded = target.dump.data, golden.dump.data
    for node in target.post_order():
        if node.match is not None or node.name in recorded:
            continue
        votes = Counter(
            child.match.parent for child in node.children if child.match is not None and child.match.parent is not None
        )
        candidates = [parent for parent, _ in votes.most_common()]
        by_name = golden.nodes.get(node.name)
        if by_name is not None:
            candidates.append(by_name)
        for other in candidates:
            if other.match is None and other.kind is node.kind and other.name not in other_recorded:
                _pair(node, other)
                break


def _pair(target: Node, golden: Node) -> None:
    target.match, golden.match = golden, target
