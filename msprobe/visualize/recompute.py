"""Forward calls repeated by activation checkpointing are shown inside the backward call that needed them.

A dump marks them (``is_recompute``); older ones are known by their stack, which goes through the checkpoint code of
PyTorch.
"""

from __future__ import annotations

from msprobe.core.naming import Phase
from msprobe.visualize.names import NameCache, is_call_of_module
from msprobe.visualize.node import Graph, Node

_BACKWARD = Phase.BACKWARD.value
_CHECKPOINT = ("torch/utils/checkpoint.py", "in recompute_fn")


def place_recomputed(graph: Graph, names: NameCache) -> None:
    """Move recomputed module calls below the backward call of the same module that follows them."""
    recomputed = [node for node in graph.nodes.values() if _is_top(graph, names, node)]
    if not recomputed:
        return
    at = {name: number for number, name in enumerate(graph.dump.data)}
    backward: dict[str, list[tuple[int, Node]]] = {}
    for name, node in graph.nodes.items():
        if names[name].module and names[name].phase == _BACKWARD:
            backward.setdefault(names[name].stem, []).append((at.get(name, len(at)), node))
    for node in recomputed:
        own = at.get(node.name, -1)
        later = [item for item in backward.get(names[node.name].stem, ()) if item[0] > own]
        if not later:
            continue
        target = min(later, key=lambda item: item[0])[1]
        if target is not node.parent and node not in _above(target):
            node.move(target, 0)


def _is_top(graph: Graph, names: NameCache, node: Node) -> bool:
    """A recomputed module call whose parent is not a recomputed call itself."""
    if not is_call_of_module(node.name) or names[node.name].phase != Phase.FORWARD.value or node.parent is None:
        return False
    parent = node.parent
    inside = names[parent.name].phase == Phase.FORWARD.value and _is_recomputed(graph, parent)
    return _is_recomputed(graph, node) and not inside


def _is_recomputed(graph: Graph, node: Node) -> bool:
    body = graph.dump.data.get(node.name)
    if isinstance(body, dict) and body.get("is_recompute") is True:
        return True
    return any(all(text in frame for text in _CHECKPOINT) for frame in graph.dump.stacks.get(node.name, ()))


def _above(node: Node) -> list[Node]:
    found = []
    above: Node | None = node
    while above is not None:
        found.append(above)
        above = above.parent
    return found
