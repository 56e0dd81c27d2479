"""Observe the gradients of single calls of the fake framework, at the nodes that a call made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.backend.protocols import GradientReceiver, Template
from tests.fake_framework.autograd import Edge, Leaf, Node, next_number
from tests.fake_framework.tensor import Tensor


class GradientSlots:
    """The arguments' edges, and the number from which on nodes belong to the call."""

    def __init__(self) -> None:
        self.edges: list[Edge] = []
        self.positional: list[Any] = []
        self.keywords: dict[str, Any] = {}
        self.since = next_number()


class FakeGradientTap:
    """Implements ``GradientTap``."""

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> GradientSlots | None:
        prepared = GradientSlots()
        prepared.positional = [_shape(value, prepared) for value in args]
        shapes = {key: _shape(value, prepared) for key, value in kwargs.items()}
        prepared.keywords = {key: shape for key, shape in shapes.items() if shape is not None}
        return prepared

    def template(self, prepared: GradientSlots) -> Template:
        return prepared.positional, prepared.keywords

    def attach(
        self, prepared: GradientSlots, result: Any, receiver: GradientReceiver, report_early: bool = False
    ) -> None:
        outputs = [tensor.maker for tensor in _tensors(result) if tensor.maker is not None]
        if not outputs:
            return
        receiver.expect(len(outputs))
        makers = {id(node): node for node, _ in outputs}
        call = _Call(prepared, receiver, outputs, _own_nodes(list(makers.values()), prepared.since))
        for node in makers.values():
            node.before.append(lambda gradients, node=node: call.on_output_gradients(node, gradients))
        for node in call.nodes.values():
            node.after.append(lambda inputs, _outputs, node=node: call.on_input_gradients(node, list(inputs)))

    def watch(self, tensor: Any, report: Callable[[Any], None]) -> Callable[[], None] | None:
        if tensor.maker is None:
            return None
        node, number = tensor.maker
        if isinstance(node, Leaf):
            undo: Callable[[], None] = tensor.hook(lambda gradient: report(_tensor(gradient)))
            return undo

        def hook(gradients: list[Any]) -> None:
            report(_tensor(gradients[number]))

        node.before.append(hook)
        return lambda: node.before.remove(hook)


class _Call:
    """Collect the gradients that flow out of all nodes of one call."""

    def __init__(
        self, prepared: GradientSlots, receiver: GradientReceiver, outputs: list[Edge], nodes: list[Node]
    ) -> None:
        self._prepared, self._receiver, self._outputs = prepared, receiver, outputs
        self.nodes = {id(node): node for node in nodes}
        self._makers = {id(node) for node, _ in outputs}
        self._reset()

    def _reset(self) -> None:
        self._pending_nodes, self._pending_outputs = set(self.nodes), set(self._makers)
        self._collected: dict[int, Any] = {}

    def on_output_gradients(self, node: Node, gradients: list[Any]) -> None:
        for position, (maker, number) in enumerate(self._outputs):
            if maker is node:
                self._receiver.grad_output(position, _tensor(gradients[number]))
        for number in range(node.outputs):  # outputs that are arguments handed on unchanged
            if id(node) not in self.nodes and (node, number) in self._prepared.edges:
                self._collected[self._prepared.edges.index((node, number))] = gradients[number]
        self._pending_outputs.discard(id(node))
        self._report_if_complete()

    def on_input_gradients(self, node: Node, gradients: list[Any]) -> None:
        taken: set[int] = set()
        for edge, gradient in zip(node.edges, gradients, strict=True):
            slots = [slot for slot, own in enumerate(self._prepared.edges) if own == edge and slot not in taken]
            if slots and gradient is not None:
                taken.add(slots[0])
                earlier = self._collected.get(slots[0])
                self._collected[slots[0]] = gradient if earlier is None else earlier + gradient
        self._pending_nodes.discard(id(node))
        self._report_if_complete()

    def _report_if_complete(self) -> None:
        if not self._pending_nodes and not self._pending_outputs:
            collected = self._collected
            self._reset()
            self._receiver.grad_inputs({slot: _tensor(gradient) for slot, gradient in collected.items()})


def _tensor(gradient: Any) -> Tensor | None:
    return None if gradient is None else Tensor(gradient)


def _own_nodes(start: list[Node], since: int) -> list[Node]:
    nodes: dict[int, Node] = {}
    while start:
        node = start.pop()
        if node.number >= since and not isinstance(node, Leaf) and id(node) not in nodes:
            nodes[id(node)] = node
            start += [edge[0] for edge in node.edges if edge is not None]
    return list(nodes.values())


def _shape(value: Any, prepared: GradientSlots) -> Any:
    if isinstance(value, Tensor):
        if value.maker is None:
            return None
        prepared.edges.append(value.maker)
        return len(prepared.edges) - 1
    if type(value) in (list, tuple):
        return [_shape(part, prepared) for part in value]
    return {key: _shape(part, prepared) for key, part in value.items()} if type(value) is dict else None


def _tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [tensor for part in result for tensor in _tensors(part)] if isinstance(result, (list, tuple)) else []
