"""Which backward call gradients of parameters belong to, where micro steps record them more than once.

They accumulate: the n-th record of a module's gradients stands for the n-th share of its backward calls, and is shown
below the last of these.
"""

from __future__ import annotations

from msprobe.core.naming import Phase
from msprobe.visualize.names import NameCache
from msprobe.visualize.node import Graph, Node

_BACKWARD, _GRADS = Phase.BACKWARD.value, Phase.PARAMETERS_GRAD.value


def place_gradients(graph: Graph, names: NameCache) -> None:
    """Move gradients that were hung below the last backward call of their module; all get the micro step of their
    parent, which construct.json does not tell."""
    gradients: dict[str, list[Node]] = {}
    for name, node in graph.nodes.items():
        if names[name].phase == _GRADS:
            gradients.setdefault(names[name].stem, []).append(node)
    several = {stem for stem, nodes in gradients.items() if len(nodes) > 1}
    if several:
        backward: dict[str, list[Node]] = {stem: [] for stem in several}
        for name, node in graph.nodes.items():
            parts = names[name]
            if parts.phase == _BACKWARD and parts.module and parts.stem in several:
                backward[parts.stem].append(node)
        for stem in several:
            _share(gradients[stem], backward[stem], names)
    for nodes in gradients.values():
        for node in nodes:
            if node.parent is not None:
                node.micro = node.parent.micro


def _share(gradients: list[Node], backward: list[Node], names: NameCache) -> None:
    """Nothing where the backward calls cannot be shared evenly."""
    each, left = divmod(len(backward), len(gradients))
    if not each or left:
        return
    for nodes in (gradients, backward):
        nodes.sort(key=lambda node: names[node.name].call or 0)
    for number, node in enumerate(gradients, 1):
        above = backward[number * each - 1]
        if node.parent is not above:
            node.move(above)
