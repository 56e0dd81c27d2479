"""Builds the graph of one loaded dump: hierarchy, recomputation, gradients, collections, micro steps, stacks.

``build_graph`` takes the tree of ``hierarchy`` and changes it in these steps:

- Forward calls that activation checkpointing repeats move into the backward call that needed them. A dump marks them
  (``is_recompute``); in older dumps their stack shows the checkpoint code of PyTorch.
- Gradients of parameters move below the backward call that they belong to, where a step records them several times.
  Gradients accumulate, so the n-th record of a module's gradients stands for the n-th share of its backward calls.
- Two or more calls in a row outside of every module become one node below the root, which keeps the root short.

``node_values`` says what the nodes get and give, from which the page draws its edges: an edge is a value
(``msprobe.trace``). A value has the name of the result that it is, or of the first record that shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from msprobe.core.naming import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT
from msprobe.trace.trace import Call, Link, Trace
from msprobe.visualize.graph.hierarchy import build_hierarchy
from msprobe.visualize.graph.micro_steps import number_micro_steps
from msprobe.visualize.graph.node import (
    BETWEEN,
    Graph,
    NameCache,
    Node,
    NodeKind,
    Work,
    is_call_of_module,
    take_merge_notes,
)

_CHECKPOINT_FRAME = ("torch/utils/checkpoint.py", "in recompute_fn")
_GRADIENTS = Phase.PARAMETERS_GRAD.value


def build_graph(dump: Dump, work: Work, names: NameCache, *, published: bool = False) -> Graph:
    """Return the graph of a dump; ``work`` has the numbers it is shown with.

    ``published`` keeps to the picture of the published tool: recomputed calls stay where construct.json has them, all
    gradients of a module are below its last backward call, and collections mix forward and backward calls.
    """
    graph = build_hierarchy(dump, names, step=work.step, rank=work.rank)
    if not published:
        place_recomputed(graph, names)
        place_gradients(graph, names)
    number_recorded(graph)
    group_calls(graph, names, by_phase=not published)
    number_micro_steps(graph, names)
    _attach_stacks(graph, names)
    return graph


def number_recorded(graph: Graph) -> None:
    """Set ``order`` and ``merged`` of every recorded node: its position in dump.json, and how it was merged."""
    for number, (name, body) in enumerate(graph.dump.data.items()):
        node = graph.nodes[name]
        node.order = number
        node.merged = take_merge_notes(body)


def _attach_stacks(graph: Graph, names: NameCache) -> None:
    """Set the call stacks. They are recorded for forward calls; a backward call has that of its forward call."""
    stacks = graph.dump.stacks
    for name, node in graph.nodes.items():
        stack = stacks.get(name)
        if stack is None and names[name].phase == Phase.BACKWARD.value:
            parts = names[name]
            stack = stacks.get(parts.text("forward"))
            if stack is None and parts.module:
                stack = stacks.get(parts.text("forward", 0))
        if stack is not None:
            node.stack = stack


def place_recomputed(graph: Graph, names: NameCache) -> None:
    """Move recomputed module calls below the backward call of the same module that follows them."""
    recomputed = [node for node in graph.nodes.values() if _is_outermost(graph, names, node)]
    if not recomputed:
        return
    order = {name: number for number, name in enumerate(graph.dump.data)}
    backward: dict[str, list[tuple[int, Node]]] = {}
    for name, node in graph.nodes.items():
        if names[name].module and names[name].phase == Phase.BACKWARD.value:
            backward.setdefault(names[name].stem, []).append((order.get(name, len(order)), node))
    for node in recomputed:
        own = order.get(node.name, -1)
        later = [item for item in backward.get(names[node.name].stem, ()) if item[0] > own]
        if not later:
            continue
        target = min(later, key=lambda item: item[0])[1]
        if target is not node.parent and node not in _with_ancestors(target):
            node.move(target, 0)


def _is_outermost(graph: Graph, names: NameCache, node: Node) -> bool:
    """Return whether a node is a recomputed module call in no other recomputed call."""
    if not is_call_of_module(node.name) or names[node.name].phase != Phase.FORWARD.value or node.parent is None:
        return False
    parent = node.parent
    inside = names[parent.name].phase == Phase.FORWARD.value and _is_recomputed(graph, parent)
    return _is_recomputed(graph, node) and not inside


def _is_recomputed(graph: Graph, node: Node) -> bool:
    body = graph.dump.data.get(node.name)
    if isinstance(body, dict) and body.get("is_recompute") is True:
        return True
    return any(all(text in frame for text in _CHECKPOINT_FRAME) for frame in graph.dump.stacks.get(node.name, ()))


def _with_ancestors(node: Node) -> list[Node]:
    nodes = []
    above: Node | None = node
    while above is not None:
        nodes.append(above)
        above = above.parent
    return nodes


def place_gradients(graph: Graph, names: NameCache) -> None:
    """Move gradients from the last backward call of their module to the one they belong to.

    All gradients get the micro step of their parent, because construct.json has none for them.
    """
    gradients: dict[str, list[Node]] = {}
    for name, node in graph.nodes.items():
        if names[name].phase == _GRADIENTS:
            gradients.setdefault(names[name].stem, []).append(node)
    several = {stem for stem, nodes in gradients.items() if len(nodes) > 1}
    if several:
        backward: dict[str, list[Node]] = {stem: [] for stem in several}
        for name, node in graph.nodes.items():
            parts = names[name]
            if parts.phase == Phase.BACKWARD.value and parts.module and parts.stem in several:
                backward[parts.stem].append(node)
        for stem in several:
            _distribute(gradients[stem], backward[stem], names)
    for nodes in gradients.values():
        for node in nodes:
            if node.parent is not None:
                node.micro = node.parent.micro


def _distribute(gradients: list[Node], backward: list[Node], names: NameCache) -> None:
    """Move the gradients of one module; leave them where the backward calls cannot be shared evenly."""
    each, rest = divmod(len(backward), len(gradients))
    if not each or rest:
        return
    for nodes in (gradients, backward):
        nodes.sort(key=lambda node: names[node.name].call or 0)
    for number, node in enumerate(gradients, 1):
        above = backward[number * each - 1]
        if node.parent is not above:
            node.move(above)


def group_calls(graph: Graph, names: NameCache, *, by_phase: bool) -> None:
    """Group the calls directly below the root. ``by_phase`` separates forward from backward calls."""
    children: list[Node] = []
    number = 0
    for _, run in groupby(list(_with_group_key(graph.root, names, by_phase)), key=lambda item: item[0]):
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


def _with_group_key(root: Node, names: NameCache, by_phase: bool) -> Iterator[tuple[str, Node]]:
    for number, node in enumerate(root.children):
        if node.kind is NodeKind.API:
            yield (names[node.name].phase if by_phase else "api"), node
        else:
            yield f"module {number}", node


class NodeValues(NamedTuple):
    """The values that a node gets, each with whether the record says so by its memory, and those that it gives."""

    gets: dict[str, bool]
    gives: list[str]


def node_values(graph: Graph) -> dict[str, NodeValues]:
    """Return what the nodes of a graph get and give, by their names; nodes that get and give nothing are left out.

    A node without a record gets and gives what the nodes below it do.
    """
    calls = Trace(graph.dump.data, graph.dump.construct).by_name
    values: dict[str, NodeValues] = {}
    for node in graph.post_order():
        call = calls.get(node.name)
        own = _of_children(values, node.children) if call is None else _of_call(call)
        if own.gets or own.gives:
            values[node.name] = own
    return values


def _of_call(call: Call) -> NodeValues:
    given = (value for value in call.given if value.leaf.slot == INPUT)
    gets = {value.root.name: value.link is Link.RECORDED for value in given}
    return NodeValues(gets, list(dict.fromkeys(value.root.name for value in call.returned)))


def _of_children(values: dict[str, NodeValues], children: Iterable[Node]) -> NodeValues:
    gets: dict[str, bool] = {}
    gives: dict[str, None] = {}
    for child in children:
        if (own := values.get(child.name)) is not None:
            gets |= {name: link for name, link in own.gets.items() if name not in gives and name not in gets}
            gives |= dict.fromkeys(own.gives)
    return NodeValues(gets, list(gives))
