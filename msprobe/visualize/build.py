"""One loaded dump to one graph: hierarchy, recomputation, collections, micro steps, stacks."""

from __future__ import annotations

from msprobe.core.naming import Phase
from msprobe.core.store.reader import Dump
from msprobe.visualize.between_modules import collect
from msprobe.visualize.gradients import place_gradients
from msprobe.visualize.hierarchy import Hierarchy
from msprobe.visualize.micro_steps import number_micro_steps
from msprobe.visualize.names import NameCache
from msprobe.visualize.node import ROOT, Graph, Node, NodeKind, take_merge_notes
from msprobe.visualize.recompute import place_recomputed


def build_graph(dump: Dump, names: NameCache, *, published: bool = False) -> Graph:
    """The graph of a dump. ``published`` keeps to the published picture where ours is clearer: recomputed calls stay
    where construct.json has them, all gradients of a module are below its last backward call, and collections mix
    forward and backward."""
    root = Node(ROOT, NodeKind.MODULE)
    graph = Graph(root, {ROOT: root}, dump)
    Hierarchy(graph, names).build()
    if not published:
        place_recomputed(graph, names)
        place_gradients(graph, names)
    number_recorded(graph)
    collect(graph, names, by_phase=not published)
    number_micro_steps(graph, names)
    _attach_stacks(graph, names)
    return graph


def number_recorded(graph: Graph) -> None:
    """Set ``order`` of every recorded node: its position in dump.json; and how it was merged, where it says so."""
    for number, (name, body) in enumerate(graph.dump.data.items()):
        node = graph.nodes[name]
        node.order = number
        node.merged = take_merge_notes(body)


def _attach_stacks(graph: Graph, names: NameCache) -> None:
    """Stacks are recorded for forward calls; a backward call shows the one of its forward call."""
    stacks = graph.dump.stacks
    for name, node in graph.nodes.items():
        found = stacks.get(name)
        if found is None and names[name].phase == Phase.BACKWARD.value:
            parts = names[name]
            found = stacks.get(parts.text("forward"))
            if found is None and parts.module:
                found = stacks.get(parts.text("forward", 0))
        if found is not None:
            node.stack = found
