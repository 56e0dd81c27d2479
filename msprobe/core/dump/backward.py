"""The backward record of one call: filled as gradients arrive, written when the last one is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.record import CallRecord

if TYPE_CHECKING:
    from msprobe.core.dump.collector import Collector


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

    def grad_output(self, position: int, gradient: Any) -> None:
        self._collector.backward_output(self, position, gradient)

    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        self._collector.backward_done(self, gradients)

    def set_output(self, position: int, node: Node) -> None:
        while len(self._outputs) <= position:
            self._outputs.append(None)
        self._outputs[position] = node

    @property
    def outputs(self) -> list[Node]:
        return self._outputs

    def fill(self, gradients: Mapping[int, Any], node: Any, place: str) -> list[Node]:
        """The arguments' template with each slot replaced by the node of its gradient; ``node`` makes nodes."""

        def walk(shape: Any, where: str) -> Node:
            if isinstance(shape, int):
                return node(gradients.get(shape), where)
            if isinstance(shape, list):
                return [walk(part, where and f"{where}.{number}") for number, part in enumerate(shape)]
            if isinstance(shape, dict):
                return {key: walk(part, where and f"{where}.{key}") for key, part in shape.items()}
            return None

        filled: list[Node] = walk(self._positional, place)
        if self._keywords:
            filled.append(walk(self._keywords, place and f"{place}.{len(filled)}"))
        return filled

    def reset(self) -> None:
        """Ready for another backward pass."""
        self.record = None
        self._outputs = []
