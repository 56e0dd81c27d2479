"""The module tree of one dump, with what was recorded of each module at its first call.

The paths of modules give the tree, also of modules that only occur as the parent of a record. A path that was never
called itself (a list of layers) is no node: its children belong to the next called module above, or to the root.
Children are in execution order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from msprobe.compare.layer_inference.name_folding import fold_class
from msprobe.compare.layer_inference.tensor_signature import TensorSignature, tensor_signatures
from msprobe.core.naming import NameSyntaxError, Phase, parse_entry
from msprobe.core.naming.names import ModuleName, is_module_name
from msprobe.core.store.reader import Dump

Counted = frozenset[tuple[Hashable, int]]
"""A multiset: its members and how often each occurs."""
_MOST_TENSORS = 4


@dataclass(slots=True, eq=False)
class Layer:
    """One called module.

    Args:
        path: its path without prefix and class; "" for the root.
        cls: its class.
        name: its path below the parent layer.
        parameters: the signatures of its own parameters by name.
        inputs: the signatures of the first input tensors.
        outputs: the signatures of the first output tensors.
        children: the layers inside it.
        position: the position of its first entry in the dump.
        anchors: the numbers of the content anchors in its subtree (see ``match_layers.place_anchors``).
        shapes: the parameter shapes of its subtree. Equal multisets are the same object in both trees.
        classes: the folded classes of its subtree, in the same way.
        size: the number of layers of its subtree, itself included.
    """

    path: str
    cls: str
    name: str = ""
    parameters: dict[str, TensorSignature] = field(default_factory=dict)
    inputs: list[TensorSignature] = field(default_factory=list)
    outputs: list[TensorSignature] = field(default_factory=list)
    children: list[Layer] = field(default_factory=list)
    position: int = 0
    anchors: frozenset[int] = frozenset()
    shapes: Counted = frozenset()
    classes: Counted = frozenset()
    size: int = 1

    def subtree(self) -> Iterator[Layer]:
        """Yield this layer and every layer inside it, depth first."""
        pending = [self]
        while pending:
            layer = pending.pop()
            yield layer
            pending.extend(reversed(layer.children))


def build_tree(dump: Dump, multisets: dict[Counted, Counted]) -> Layer:
    """Return the root of the called modules, which is a layer without path and class.

    Args:
        dump: the dump.
        multisets: collects the multisets of all layers; pass the same dict for both sides, so that equal ones become
            one object.
    """
    layers: dict[str, Layer] = {}
    for position, (name, body) in enumerate(dump.data.items()):
        if is_module_name(name) and isinstance(body, Mapping):
            _add_entry(layers, name, body, position)
    for name in {name for name in dump.construct.values() if isinstance(name, str)} - dump.data.keys():
        if is_module_name(name):
            _add_entry(layers, name, {}, len(dump.data))
    root = Layer("", "")
    for path, layer in layers.items():
        parent_path = _nearest_above(layers, path)
        parent = layers[parent_path] if parent_path is not None and layers[parent_path] is not layer else root
        layer.name = path[len(parent.path) + 1 :] if parent.path else path
        parent.children.append(layer)
    for layer in reversed(list(root.subtree())):
        _summarise(layer, multisets)
    return root


def _add_entry(layers: dict[str, Layer], name: str, body: Mapping[str, Any], position: int) -> None:
    """Add what an entry records of its module to the layers, by path."""
    try:
        parsed = parse_entry(name)
    except NameSyntaxError:
        return
    if not isinstance(parsed, ModuleName):
        return
    layer = layers.get(parsed.path)
    if layer is None:
        layer = layers[parsed.path] = Layer(parsed.path, parsed.cls, position=position)
    if parsed.phase is Phase.PARAMETERS_GRAD:
        if not layer.parameters:
            layer.parameters = {
                key: tensor.shape_only() for key, values in body.items() for tensor in tensor_signatures(values, 1)
            }
    elif not layer.outputs and not layer.inputs:
        _fill(layer, body, parsed.phase)


def _fill(layer: Layer, body: Mapping[str, Any], phase: Phase) -> None:
    layer.inputs = tensor_signatures(
        [body.get("input_args"), body.get("input_kwargs"), body.get("input")], _MOST_TENSORS
    )
    layer.outputs = tensor_signatures(body.get("output"), _MOST_TENSORS)
    parameters = body.get("parameters")
    if phase is Phase.FORWARD and isinstance(parameters, Mapping):
        signatures = {key: tensor for key, value in parameters.items() for tensor in tensor_signatures(value, 1)}
        layer.parameters = signatures or layer.parameters


def _nearest_above(layers: Mapping[str, Layer], path: str) -> str | None:
    """Return the path of the nearest layer above a path; None where there is none."""
    while path:
        path = path.rpartition(".")[0]
        if path in layers:
            return path
    return None


def _summarise(layer: Layer, multisets: dict[Counted, Counted]) -> None:
    """Sort the children of a layer, and count what its subtree consists of."""
    layer.children.sort(key=attrgetter("position"))
    shapes: Counter[Hashable] = Counter(tuple(sorted(tensor.shape)) for tensor in layer.parameters.values())
    classes: Counter[Hashable] = Counter([fold_class(layer.cls)])
    for child in layer.children:
        shapes.update(dict(child.shapes))
        classes.update(dict(child.classes))
        layer.position = min(layer.position, child.position)
        layer.size += child.size
    layer.shapes, layer.classes = (multisets.setdefault(key, key) for key in map(_counted, (shapes, classes)))


def _counted(members: Counter[Hashable]) -> Counted:
    return frozenset(members.items())
