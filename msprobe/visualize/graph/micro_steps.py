"""The micro step of each node.

Megatron dumps record it. Elsewhere the nodes below the root are numbered by the rule of graph databases
(``core.naming.micro_steps``), and children have the number of their parent.
"""

from __future__ import annotations

from msprobe.core.naming import Phase
from msprobe.core.naming.micro_steps import Opening, OutermostCall, number_outermost
from msprobe.visualize.graph.node import Graph, NameCache, Node, NodeKind, is_call_of_module


def number_micro_steps(graph: Graph, names: NameCache) -> None:
    """Set ``micro`` of all nodes and ``micro_steps`` of the graph."""
    if graph.megatron:
        return
    calls = [_outermost_call(graph, names, node) for node in graph.root.children]
    numbers = number_outermost(calls, Opening.FORWARD_AFTER_BACKWARD)
    for node, number in zip(graph.root.children, numbers, strict=True):
        _set_below(node, number)
    graph.micro_steps = max(numbers, default=0) + 1


def _outermost_call(graph: Graph, names: NameCache, node: Node) -> OutermostCall:
    if node.kind is not NodeKind.MODULE or _is_recomputed_call(graph, node):
        return OutermostCall.NEUTRAL
    forward = is_call_of_module(node.name) and names[node.name].phase == Phase.FORWARD.value
    return OutermostCall.FORWARD if forward else OutermostCall.BACKWARD


def _is_recomputed_call(graph: Graph, node: Node) -> bool:
    body = graph.dump.data.get(node.name)
    return isinstance(body, dict) and body.get("is_recompute") is True


def _set_below(top: Node, micro: int) -> None:
    pending = [top]
    while pending:
        node = pending.pop()
        node.micro = micro
        pending.extend(node.children)


def follow_target(graph: Graph, micro_steps: int | None) -> None:
    """Give the nodes of the golden side the micro steps of their partners.

    A node without a partner has the micro step of its parent. Directly below the root it has the number at the end of
    its name, but at most the last micro step of the target; a collection, whose number is no call, has that of the node
    before it.

    Args:
        graph: the graph of the golden run.
        micro_steps: how many the target has; None keeps to the published rule, the number at the end of any name.
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
