"""Which micro step a node belongs to.

Megatron dumps say it. Elsewhere a forward call of a module below the root, after any other module call, begins the
next micro step; what follows belongs to it, and children to the micro step of their parent.
"""

from __future__ import annotations

from msprobe.core.naming import Phase
from msprobe.visualize.names import NameCache, is_call_of_module
from msprobe.visualize.node import Graph, Node, NodeKind


def number_micro_steps(graph: Graph, names: NameCache) -> None:
    """Set ``micro`` of all nodes and ``micro_steps`` of the graph."""
    if graph.megatron:
        return
    current, left = 0, False
    for node in graph.root.children:
        if node.kind is NodeKind.MODULE and not _recomputed(graph, node):
            forward = is_call_of_module(node.name) and names[node.name].phase == Phase.FORWARD.value
            current += forward and left
            left = not forward
        _mark(node, current)
    graph.micro_steps = current + 1


def _recomputed(graph: Graph, node: Node) -> bool:
    body = graph.dump.data.get(node.name)
    return isinstance(body, dict) and body.get("is_recompute") is True


def _mark(top: Node, micro: int) -> None:
    pending = [top]
    while pending:
        node = pending.pop()
        node.micro = micro
        pending.extend(node.children)


def follow_target(graph: Graph, micro_steps: int | None) -> None:
    """Give the nodes of the golden side the micro steps of their partners.

    What has no partner goes with its parent; directly below the root with the number at the end of its name, but not
    beyond the ``micro_steps`` of the target, and collections, whose numbers are no calls, with the node before them.
    ``micro_steps`` None keeps to the published rule: the number of any name.
    """
    before = 0
    for node in graph.pre_order():
        if node.match is not None:
            node.micro = node.match.micro
        elif node.parent is not None and node.parent is not graph.root:
            node.micro = node.parent.micro
        elif node is not graph.root:
            tail = node.name.rpartition(".")[2]
            number = int(tail) if tail.isdigit() and tail.isascii() else 0
            if micro_steps is not None:
                number = before if node.kind is NodeKind.COLLECTION else min(number, micro_steps - 1)
            node.micro = number
        if node.parent is graph.root:
            before = node.micro
