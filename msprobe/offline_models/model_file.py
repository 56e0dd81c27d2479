"""Reads an ``.onnx`` file: its nodes with the modules that they come from, its inputs and its weights.

``read_model`` loads the graph without external data; the weights stay in their files until one is asked for. Local
functions of the model are put in place of their calls, so that the nodes in them are recorded too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError, error_text
from msprobe.offline_models.packages import load_package
from msprobe.offline_models.scopes import Scope, scopes_of

_REFUSED: Mapping[str, str] = {
    ".om": "an OM file runs on an NPU with CANN only; give the .onnx file that it was made of",
    ".air": "an AIR file runs on an NPU with CANN only; give the .onnx file of the same model",
    ".mindir": "a MindIR file runs in MindSpore only; record the program with msprobe run, or give an .onnx file",
    ".pb": "graphs of TensorFlow are not read; give an .onnx file",
    ".prototxt": "models of Caffe are not read; give an .onnx file",
}
_OWN_DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the graph.

    Attributes:
        name: the name in the file, or that of its first output where it has none.
        op: the kind of operation, such as ``MatMul``.
        inputs: the names of the values that it gets; empty for one that is left out.
        outputs: the names of the values that it makes, as ``inputs``.
        scopes: the modules of PyTorch around it, from outside to inside.
        bodies: how many nodes are in its branches or loops, which are not recorded.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scopes: tuple[Scope, ...]
    bodies: int


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An input of the model. ``shape`` has a number, the name of a size that may vary, or None for each axis."""

    name: str
    element_type: int
    shape: tuple[int | str | None, ...]


@dataclass(frozen=True)
class Model:
    """A model file. ``proto`` is onnx's ModelProto, in which external data stays outside."""

    path: Path
    proto: Any
    nodes: tuple[Node, ...]
    inputs: tuple[ModelInput, ...]
    outputs: tuple[str, ...]
    weight_names: frozenset[str]
    reads: tuple[tuple[str, ...], ...]
    """What each node reads, in its branches and loops too."""
    tensors: Mapping[str, Any]
    """The weights of onnx by name."""

    def weight(self, name: str) -> Any:
        """Return a weight as an array; None for a sparse one.

        Raises:
            ReadError: its data cannot be read.
        """
        tensor = self.tensors.get(name)
        if tensor is None:  # a sparse one
            return None
        onnx = load_package("onnx")
        try:
            return onnx.numpy_helper.to_array(tensor, str(self.path.parent))
        except Exception as error:
            raise ReadError(f"{self.path}: the weight {name!r} cannot be read ({error_text(error)})") from error


def is_model_file(path: Path) -> bool:
    """Return whether a path names a model file by its suffix: one that is read, or one that is refused."""
    return path.suffix.lower() in {".onnx", *_REFUSED}


def read_model(path: Path) -> Model:
    """Read a model file and check it.

    Raises:
        ReadError: it is no ONNX file, is damaged, or its external data is missing.
        MsprobeException: the package onnx is not installed.
    """
    suffix = path.suffix.lower()
    if suffix in _REFUSED:
        raise ReadError(f"{path}: {_REFUSED[suffix]}")
    if not path.is_file():
        raise ReadError(f"{path}: no such file; give an .onnx file")
    if suffix != ".onnx":
        raise ReadError(f"{path}: the name does not end in .onnx; give an .onnx file")
    onnx = load_package("onnx")
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise ReadError(f"{path}: no ONNX model, or a damaged one ({error_text(error)}); export it again") from error
    if not proto.graph.node:
        raise ReadError(f"{path}: its graph has no nodes; export the model again")
    if odd := next((name for name in _names(proto.graph) if not isinstance(name, str)), None):
        raise ReadError(f"{path}: the name {odd!r:.80} in it is no text; export the model again")
    _check_external_data(path, proto)
    return _model(path, _with_functions_in_place(path, proto))


def _names(graph: Any) -> Iterator[Any]:
    """Yield the names in a graph; protobuf gives bytes for one that is no UTF-8."""
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (text for item in node.metadata_props for text in (item.key, item.value))


def _check_external_data(path: Path, proto: Any) -> None:
    """Raise ReadError for a file of weights that is missing or lies outside of the folder of the model."""
    folder = path.parent.resolve()
    for tensor in proto.graph.initializer:
        location = next((item.value for item in tensor.external_data if item.key == "location"), "")
        if not location:
            continue
        try:
            file = (folder / location).resolve()
        except (ValueError, TypeError, RuntimeError) as error:  # NUL, bytes that are no text, a link to itself
            raise ReadError(f"{path}: {location!r:.80} of the weight {tensor.name!r:.80} names no file") from error
        if not file.is_relative_to(folder):
            raise ReadError(f"{path}: the weight {tensor.name!r} lies outside of the model's folder: {location}")
        if not file.is_file():
            raise ReadError(f"{path}: its file of weights {location} is missing; copy it beside the model")


def _with_functions_in_place(path: Path, proto: Any) -> Any:
    if not proto.functions:
        return proto
    inliner = load_package("onnx.inliner")
    try:
        return inliner.inline_local_functions(proto)
    except Exception as error:
        raise ReadError(f"{path}: its local functions cannot be read ({error_text(error)})") from error


def _model(path: Path, proto: Any) -> Model:
    graph = proto.graph
    weights = frozenset(
        [tensor.name for tensor in graph.initializer] + [tensor.values.name for tensor in graph.sparse_initializer]
    )
    inputs = tuple(_input(value) for value in graph.input if value.name not in weights)
    outputs = tuple(value.name for value in graph.output)
    reads = tuple(tuple(values_used_by(node)) for node in graph.node)
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    return Model(path, proto, tuple(_nodes(proto)), inputs, outputs, weights, reads, tensors)


def _input(value: Any) -> ModelInput:
    tensor = value.type.tensor_type
    shape = tuple(size.dim_value if size.HasField("dim_value") else size.dim_param or None for size in tensor.shape.dim)
    return ModelInput(value.name, tensor.elem_type, shape)


def _nodes(proto: Any) -> Iterator[Node]:
    names = [node.name for node in proto.graph.node]
    scopes = scopes_of(
        names,
        [{item.key: item.value for item in node.metadata_props} for node in proto.graph.node],
        {tensor.name for tensor in proto.graph.initializer},
    )
    for node, around in zip(proto.graph.node, scopes, strict=True):
        name = node.name or next((output for output in node.output if output), node.op_type)
        bodies = sum(_size(attribute) for attribute in node.attribute)
        op = node.op_type if node.domain in _OWN_DOMAINS else f"{node.domain.replace('.', '_')}_{node.op_type}"
        yield Node(name, op, tuple(node.input), tuple(node.output), around, bodies)


def _size(attribute: Any) -> int:
    """Return how many nodes the graphs of an attribute have, those inside of them too."""
    graphs = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
    return sum(1 + sum(_size(inner) for inner in node.attribute) for graph in graphs for node in graph.node)


def values_used_by(node: Any) -> Iterator[str]:
    """Yield the names of the values that a node of onnx reads, those of its branches and loops too."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
            for inner in graph.node:
                yield from values_used_by(inner)
            yield from (output.name for output in graph.output)
