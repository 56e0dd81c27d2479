"""Which node of one graph stands for which node of the other.

Recorded nodes follow the pairs of the comparison. Nodes without a record (the root, collections, modules whose data
was filtered) follow their children, else their name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msprobe.analyze.communication import COMMUNICATION
from msprobe.compare.alignment.protocol import Alignment, Positions, Side
from msprobe.compare.pairs import EntryPair
from msprobe.visualize.names import NameCache
from msprobe.visualize.node import Graph, Node, NodeKind

_OF_RANK = re.compile(r"_rank\d+(?=\.|$)")


class NodePairs:
    """The pairs of two graphs as an alignment strategy of the comparison."""

    def __init__(self, target: Graph) -> None:
        self._nodes = target.nodes

    def align(self, target: Side, golden: Side) -> Alignment:
        at = {key.name: j for j, key in enumerate(golden.keys)}
        found: Positions = []
        for i, key in enumerate(target.keys):
            match = self._nodes[key.name].match
            j = None if match is None else at.get(match.name)
            if j is not None:
                found.append((i, j))
        return Alignment(found)


def pair_exactly(target: Graph, golden: Graph) -> None:
    """The published rule: the same name below the same ancestors."""
    _join(target.root, golden.root)
    for node in target.pre_order():
        if node.parent is None:
            continue
        other = golden.nodes.get(node.name)
        above = node.parent.match
        if other is not None and above is not None and other.parent is above:
            _join(node, other)


def pair_fuzzily(target: Graph, golden: Graph, names: NameCache) -> None:
    """The published rule of ``-fm``: modules by name wherever they are; calls inside two matched modules by their
    name without number, in their order."""
    _join(target.root, golden.root)
    for node in target.nodes.values():
        other = golden.nodes.get(node.name)
        if node.kind is not NodeKind.API and other is not None and other.kind is not NodeKind.API:
            _join(node, other)
    for node in target.nodes.values():
        if node.kind is NodeKind.API or node.match is None:
            continue
        waiting = dict(_numbered(node.match.children, names))
        for key, call in _numbered(node.children, names):
            other = waiting.get(key)
            if other is not None:
                _join(call, other)


def pair_merged(target: Graph, golden: Graph, names: NameCache) -> None:
    """For merged ranks: as ``pair_fuzzily``, whatever rank a call is of; calls outside of modules count as one list."""
    pair_fuzzily(target, golden, names)
    waiting = dict(_numbered(_outside(golden), names))
    for key, call in _numbered(_outside(target), names):
        other = waiting.get(key)
        if other is not None:
            _join(call, other)
    _complete(target, golden)


def is_of_layout_only(node: Node) -> bool:
    """Whether a call is there because of the layout: communication, or a call that every rank makes for itself."""
    return node.name.startswith(COMMUNICATION) or _OF_RANK.search(node.name) is not None


def _outside(graph: Graph) -> Iterator[Node]:
    """Calls that are in no module."""
    pending = list(reversed(graph.root.children))
    while pending:
        node = pending.pop()
        if node.kind is NodeKind.API:
            yield node
        elif node.kind is NodeKind.COLLECTION:
            pending.extend(reversed(node.children))


def _numbered(children: Iterable[Node], names: NameCache) -> Iterable[tuple[tuple[str, str, int], Node]]:
    counted: Counter[tuple[str, str]] = Counter()
    for node in children:
        if node.kind is NodeKind.API:
            parts = names[node.name]
            key = (_OF_RANK.sub("", parts.stem), parts.phase)
            yield (*key, counted[key]), node
            counted[key] += 1


def pair_by_entries(target: Graph, golden: Graph, entries: Iterable[EntryPair]) -> None:
    """Follow the pairs of recorded entries, then complete them with the nodes that have no record."""
    _join(target.root, golden.root)
    for pair in entries:
        if pair.target is not None and pair.golden is not None:
            _join(target.nodes[pair.target], golden.nodes[pair.golden])
    _complete(target, golden)


def _complete(target: Graph, golden: Graph) -> None:
    """Pair what has no record by its children, else by its name."""
    recorded, other_recorded = target.dump.data, golden.dump.data
    for node in target.post_order():
        if node.match is not None or node.name in recorded:
            continue
        votes = Counter(
            child.match.parent for child in node.children if child.match is not None and child.match.parent is not None
        )
        wanted = [found for found, _ in votes.most_common()]
        by_name = golden.nodes.get(node.name)
        if by_name is not None:
            wanted.append(by_name)
        for other in wanted:
            if other.match is None and other.kind is node.kind and other.name not in other_recorded:
                _join(node, other)
                break


def _join(ours: Node, theirs: Node) -> None:
    ours.match, theirs.match = theirs, ours
