"""The module tree of one dump, with what was recorded of each module at its first call.

Modules that only occur as the parent of a record are part of it.
Paths give the tree. A path that was never called itself (a list of layers) is no node: its children belong to the next
called module above, or to the top. Children stand in execution order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msprobe.compare.layer_inference.name_folding import fold_class
from msprobe.compare.layer_inference.tensor_signature import TensorSignature, tensor_signatures
from msprobe.core.naming import NameSyntaxError, Phase, parse_entry
from msprobe.core.naming.names import MODULE_PREFIXES, ModuleName
from msprobe.core.store.reader import Dump

Counted = frozenset[tuple[Hashable, int]]
"""A multiset: members and how often they occur."""
_MOST = 4


@dataclass(slots=True, eq=False)
class Layer:
    """One called module. ``name`` is its path below the parent layer; ``anchors`` are numbers of content anchors
    inside it (see ``anchors``); ``shapes`` counts the parameter shapes of the subtree, ``kinds`` its folded classes;
    equal ones are the same object in both trees;
    ``size`` counts the layers from here down."""

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
    kinds: Counted = frozenset()
    size: int = 1

    def below(self) -> Iterator[Layer]:
        """This layer and every layer inside it, depth first."""
        waiting = [self]
        while waiting:
            layer = waiting.pop()
            yield layer
            waiting.extend(reversed(layer.children))


def build_tree(dump: Dump, known: dict[Counted, Counted]) -> Layer:
    """The root (a layer without path and class) of the called modules. ``known`` collects the multisets; give the same
    dict for both sides."""
    layers: dict[str, Layer] = {}
    for position, (name, body) in enumerate(dump.data.items()):
        if name.partition(".")[0] in MODULE_PREFIXES and isinstance(body, Mapping):
            _note(layers, name, body, position)
    for name in {name for name in dump.construct.values() if isinstance(name, str)} - dump.data.keys():
        if name.partition(".")[0] in MODULE_PREFIXES:
            _note(layers, name, {}, len(dump.data))
    root = Layer("", "")
    for path, layer in layers.items():
        above = _above(layers, path)
        parent = layers[above] if above is not None and layers[above] is not layer else root
        layer.name = path[len(parent.path) + 1 :] if parent.path else path
        parent.children.append(layer)
    for layer in reversed(list(root.below())):
        _summarise(layer, known)
    return root


def _note(layers: dict[str, Layer], name: str, body: Mapping[str, Any], position: int) -> None:
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
                key: seen.shape_only() for key, values in body.items() for seen in tensor_signatures(values, 1)
            }
    elif not layer.outputs and not layer.inputs:
        _fill(layer, body, parsed.phase)


def _fill(layer: Layer, body: Mapping[str, Any], phase: Phase) -> None:
    layer.inputs = tensor_signatures([body.get("input_args"), body.get("input_kwargs"), body.get("input")], _MOST)
    layer.outputs = tensor_signatures(body.get("output"), _MOST)
    parameters = body.get("parameters")
    if phase is Phase.FORWARD and isinstance(parameters, Mapping):
        found = {key: seen for key, value in parameters.items() for seen in tensor_signatures(value, 1)}
        layer.parameters = found or layer.parameters


def _above(layers: Mapping[str, Layer], path: str) -> str | None:
    while path:
        path = path.rpartition(".")[0]
        if path in layers:
            return path
    return None


def _summarise(layer: Layer, known: dict[Counted, Counted]) -> None:
    """Children in execution order, and what the subtree consists of."""
    layer.children.sort(key=_first_position)
    shapes: Counter[Hashable] = Counter(tuple(sorted(seen.shape)) for seen in layer.parameters.values())
    kinds: Counter[Hashable] = Counter([fold_class(layer.cls)])
    for child in layer.children:
        shapes.update(dict(child.shapes))
        kinds.update(dict(child.kinds))
        layer.position = min(layer.position, child.position)
        layer.size += child.size
    layer.shapes, layer.kinds = (known.setdefault(found, found) for found in map(_counted, (shapes, kinds)))


def _counted(members: Counter[Hashable]) -> Counted:
    return frozenset(members.items())


def _first_position(layer: Layer) -> int:
    return layer.position
