"""The backward call that gradients of parameters belong to, where micro steps record them more than once.

Gradients accumulate: the n-th record of a module's gradients stands for the n-th share of its backward calls, and is
shown below the last of these.
"""

from __future__ import annotations

from msprobe.core.naming import Phase
from msprobe.visualize.names import NameCache
from msprobe.visualize.node import Graph, Node

_GRADIENTS = Phase.PARAMETERS_GRAD.value


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
