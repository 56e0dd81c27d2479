"""Calls outside of every module: two or more in a row below the root become one node, so that the root stays short."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msprobe.visualize.names import NameCache
from msprobe.visualize.node import BETWEEN, Graph, Node, NodeKind


def collect(graph: Graph, names: NameCache, *, by_phase: bool) -> None:
    """Group the calls directly below the root. ``by_phase`` keeps forward and backward calls apart."""
    children: list[Node] = []
    number = 0
    for _, run in groupby(list(_keyed(graph.root, names, by_phase)), key=lambda item: item[0]):
        nodes = [node for _, node in run]
        if len(nodes) < 2 or nodes[0].kind is not NodeKind.API:
            children.extend(nodes)
            continue
        name = f"{BETWEEN}.{number}"
        number += 1
        group = graph.nodes[name] = Node(name, NodeKind.COLLECTION, graph.root, nodes)
        for node in nodes:
            node.parent = group
        children.append(group)
    graph.root.children = children


def _keyed(root: Node, names: NameCache, by_phase: bool) -> Iterator[tuple[str, Node]]:
    for number, node in enumerate(root.children):
        if node.kind is NodeKind.API:
            yield (names[node.name].phase if by_phase else "api"), node
        else:
            yield f"module {number}", node
