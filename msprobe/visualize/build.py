"""The graph of one loaded dump: hierarchy, recomputation, gradients, collections, micro steps, stacks."""

from __future__ import annotations

from msprobe.core.naming import Phase
from msprobe.core.store.reader import Dump
from msprobe.visualize.between_modules import group_calls
from msprobe.visualize.gradients import place_gradients
from msprobe.visualize.hierarchy import build_hierarchy
from msprobe.visualize.micro_steps import number_micro_steps
from msprobe.visualize.names import NameCache
from msprobe.visualize.node import Graph, Work, take_merge_notes
from msprobe.visualize.recompute import place_recomputed


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
