"""The backward record of one call: filled as gradients arrive, written when the last one is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.record import CallRecord

if TYPE_CHECKING:
    from msprobe.core.dump.collector import Collector


NodeMaker = Callable[[Any, str], Node]


class BackwardCall:
    """Receives the gradients of one call.

    ``input`` holds the gradients of the outputs, ``output`` those of the arguments in the order of the arguments, with null
    where none flows. A second backward pass through the same call (retain_graph) replaces the record of the first.
    """

    __slots__ = ("_collector", "_keywords", "_outputs", "_positional", "kept", "name", "parent", "record")

    def __init__(self, collector: Collector, forward: CallRecord, template: tuple[list[Any], dict[str, Any]]) -> None:
        assert forward.backward is not None
        self._collector = collector
        self.name = forward.backward
        self.parent = forward.parent
        self.kept = True
        self.record: CallRecord | None = None
        self._outputs: list[Node] = []
        self._positional, self._keywords = template

    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        self._collector.backward_whole(self, grad_outputs, grad_inputs)

    def grad_output(self, position: int, gradient: Any) -> None:
        self._collector.backward_output(self, position, gradient)

    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        self._collector.backward_done(self, gradients)

    def expect(self, outputs: int) -> None:
        """Gradients of this many outputs may arrive; those that do not are null in the record."""
        self._outputs = [None] * outputs

    def set_output(self, position: int, node: Node) -> None:
        self._outputs[position] = node

    @property
    def outputs(self) -> list[Node]:
        return self._outputs

    def fill(self, gradients: Mapping[int, Any], node: NodeMaker, place: str) -> list[Node]:
        """The arguments' template with each slot replaced by the node of its gradient; ``node`` makes nodes."""
        filled = [
            None if shape is None else _fill(shape, gradients, node, place and f"{place}.{number}")
            for number, shape in enumerate(self._positional)
        ]
        if self._keywords:
            filled.append(_fill(self._keywords, gradients, node, place and f"{place}.{len(filled)}"))
        return filled

    def reset(self) -> None:
        """Ready for another backward pass."""
        self.record = None
        self._outputs = [None] * len(self._outputs)


def _fill(shape: Any, gradients: Mapping[int, Any], node: NodeMaker, place: str) -> Node:
    if isinstance(shape, int):
        return node(gradients.get(shape), place)
    if isinstance(shape, list):
        return [_fill(part, gradients, node, place and f"{place}.{number}") for number, part in enumerate(shape)]
    if isinstance(shape, dict):
        return {key: _fill(part, gradients, node, place and f"{place}.{key}") for key, part in shape.items()}
    return None
