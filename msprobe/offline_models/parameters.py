"""Which weights of a model file are the parameters of a module.

Exporters keep the name of a parameter (``blocks.0.fc1.bias``) but where they change it: the weight of a linear layer is
stored transposed under another name, and equal parameters of several modules are stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msprobe.offline_models.model_file import Model, Node

_PRODUCTS = {"MatMul", "Gemm"}
_WEIGHT = "weight"


class Parameter(NamedTuple):
    """A parameter: the value of the graph that holds it, whether that is its transpose, and the node that reads it."""

    value: str
    transposed: bool
    node: Node


def parameters_of(model: Model, path: str, nodes: Sequence[Node]) -> dict[str, Parameter]:
    """Return the parameters of a module by their names in it.

    Args:
        model: the model.
        path: the path of the module.
        nodes: its own nodes, without those of modules in it.
    """
    found: dict[str, Parameter] = {}
    unnamed: list[Parameter] = []
    for node in nodes:
        for slot, name in enumerate(node.inputs):
            inside = name.removeprefix(f"{path}.")
            if name.startswith(f"{path}.") and inside.isidentifier():
                found.setdefault(inside, Parameter(name, False, node))
            elif name in model.weight_names and "." in name and (last := name.rpartition(".")[2]).isidentifier():
                found.setdefault(last, Parameter(name, False, node))
            elif name in model.weight_names and node.op in _PRODUCTS and slot == 1:
                unnamed.append(Parameter(name, node.op == "MatMul", node))
    if len(unnamed) == 1 and _WEIGHT not in found:
        found[_WEIGHT] = unnamed[0]
    return found
