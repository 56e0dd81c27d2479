"""The tape: a node per operation with numbered outputs, and the backward pass over nodes, latest made first."""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Edge = tuple["Node", int]
Backward = Callable[[Sequence[Array | None]], Sequence[Array | None]]

_numbers = itertools.count()
running = 0
"""How many backward passes are under way."""


def next_number() -> int:
    """Nodes made from now on have this number or a higher one."""
    return next(_numbers)


class Node:
    """One differentiable operation. ``edges`` say where the gradient of each input goes, None for nowhere."""

    def __init__(self, edges: Sequence[Edge | None], outputs: int, backward: Backward) -> None:
        self.number = next_number()
        self.edges = tuple(edges)
        self.outputs = outputs
        self.backward = backward
        self.before: list[Callable[[list[Array | None]], None]] = []
        self.after: list[Callable[[Sequence[Array | None], list[Array | None]], None]] = []

    def run(self, gradients: list[Array | None]) -> Sequence[Array | None]:
        for hook in list(self.before):
            hook(gradients)
        found = self.backward(gradients)
        for after in list(self.after):
            after(found, gradients)
        return found


class Leaf(Node):
    """Where gradients end up: adds them to ``tensor.grad`` after the tensor's own hooks have seen them."""

    def __init__(self, tensor: Any) -> None:
        super().__init__((), 1, self._accumulate)
        self.number = -1
        self.tensor = tensor
        self.hooks: list[Callable[[Array], None]] = []

    def _accumulate(self, gradients: Sequence[Array | None]) -> Sequence[Array | None]:
        gradient = gradients[0]
        if gradient is not None:
            for hook in list(self.hooks):
                hook(gradient)
            earlier = self.tensor.grad
            self.tensor.grad = gradient.copy() if earlier is None else earlier + gradient
        return ()


@contextlib.contextmanager
def _counted() -> Iterator[None]:
    global running
    running += 1
    try:
        yield
    finally:
        running -= 1


class _Waiting:
    """Nodes that have gradients to pass on, latest made first."""

    def __init__(self) -> None:
        self._slots: dict[int, list[Array | None]] = {}
        self._heap: list[tuple[int, int, Node]] = []

    def send(self, edge: Edge, value: Array) -> None:
        node, output = edge
        if id(node) not in self._slots:
            self._slots[id(node)] = [None] * node.outputs
            heapq.heappush(self._heap, (-node.number, next_number(), node))
        slots = self._slots[id(node)]
        earlier = slots[output]
        slots[output] = value if earlier is None else earlier + value

    def __iter__(self) -> Iterator[tuple[Node, list[Array | None]]]:
        while self._heap:
            node = heapq.heappop(self._heap)[2]
            yield node, self._slots.pop(id(node))


def run_backward(start: Edge, gradient: Array) -> None:
    """Send ``gradient`` into output ``start`` and on to all leaves."""
    waiting = _Waiting()
    waiting.send(start, gradient)
    with _counted():
        for node, gradients in waiting:
            pairs = zip(node.edges, node.run(gradients), strict=True)
            for edge, value in ((edge, value) for edge, value in pairs if edge is not None and value is not None):
                waiting.send(edge, np.asarray(value))
