"""The gradients of single calls, observed at the autograd nodes the call made.

Nothing is put into the graph: hooks on existing nodes see the gradients that flow anyway. A node belongs to the call
when its sequence number was given out during the call. The gradient of output k is what arrives at its node; the
gradient of an argument is what leaves the call's nodes along the edge to that argument. Two uses of one argument inside
the call add up; uses outside the call are not counted in.

A cell that is itself what ``ms.grad`` differentiates opens the graph inside its call: its arguments have their edges
only afterwards, and are looked at then.

MindSpore before 2.10 has no such nodes: there only the gradients of outputs are seen (``output_gradients``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mindspore import Tensor

from msprobe.adapters.mindspore.tensor_watch import watch
from msprobe.adapters.mindspore.versions import executor
from msprobe.core.backend.protocols import GradientReceiver
from msprobe.core.capture.containers import shape_of, tensors_in
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.call_gradients import CallGradients

_executor = executor()
_LEAF = 2**64 - 1
Edge = tuple[int, int]
_Pairs = list[tuple[int, int]]


class Prepared:
    """What is noted of a call before it runs: its arguments' edges into the graph, and where new nodes begin."""

    __slots__ = ("_arguments", "edges", "keywords", "positional", "since", "slots")

    def __init__(self, since: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.since = since
        self.edges: dict[Edge, list[int]] = {}
        self.positional: list[Any] = []
        self.keywords: dict[str, Any] = {}
        self.slots = 0
        self._arguments: tuple[tuple[Any, ...], Mapping[str, Any]] | None = (args, kwargs)

    def look(self) -> None:
        """Find the edges of the arguments; at the second time there is nothing left to do."""
        if self._arguments is None:
            return
        (args, kwargs), self._arguments = self._arguments, None
        self.positional = [shape_of(value, self.slot, Tensor) for value in args]
        shapes = {key: shape_of(value, self.slot, Tensor) for key, value in kwargs.items()}
        self.keywords = {key: shape for key, shape in shapes.items() if shape is not None}

    def slot(self, tensor: Any) -> int | None:
        """The slot of one argument, or None when no gradient can reach it."""
        edge = _edge(tensor)
        if edge is None:
            return None
        number, self.slots = self.slots, self.slots + 1
        self.since = max(self.since, _order(tensor._grad_node))
        self.edges.setdefault(edge, []).append(number)
        return number


class MindSporeGradientTap:
    """Implements ``GradientTap``."""

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread
        self._latest = -1  # the youngest node seen so far: what a call makes is younger

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Prepared | None:
        if not _executor.enable_grad():
            return None
        prepared = Prepared(self._latest, args, kwargs)
        if _executor.grad_flag():
            prepared.look()
        return prepared

    def template(self, prepared: Prepared) -> tuple[list[Any], dict[str, Any]]:
        prepared.look()
        return prepared.positional, prepared.keywords

    def attach(self, prepared: Prepared, result: Any, receiver: GradientReceiver, announced: bool = False) -> None:
        targets: dict[int, tuple[Any, _Pairs]] = {}
        count = 0
        for tensor in tensors_in(result, Tensor):
            node = _node(tensor)
            if node is not None:
                targets.setdefault(node._unique_id(), (node, []))[1].append((tensor._output_index, count))
                self._latest = max(self._latest, _order(node))
                count += 1
        if not targets:
            return
        receiver.expect(count)
        found = _contributions([node for node, _ in targets.values()], prepared)
        call = CallGradients(receiver, self._thread, found, len(targets), _sum)
        for identity, (node, outputs) in targets.items():
            through = [(number, slots[0]) for number, _ in outputs if (slots := prepared.edges.get((identity, number)))]
            node.register_prehook(call.before(outputs, through))
        for identity, (node, fed) in found.items():
            node.register_hook(call.after(identity, fed))

    def watch(self, tensor: Any, report: Callable[[Any], None]) -> Callable[[], None] | None:
        return watch(tensor, self._thread, report)


def _node(tensor: Any) -> Any:
    """The node that made ``tensor``, or the leaf that takes its gradient; None outside a gradient function."""
    return tensor._grad_node if tensor._requires_grad else None


def _edge(tensor: Any) -> Edge | None:
    node = _node(tensor)
    return None if node is None else (node._unique_id(), tensor._output_index)


def _contributions(targets: list[Any], prepared: Prepared) -> dict[int, tuple[Any, _Pairs]]:
    """The call's nodes that feed its arguments: id -> (node, [(index of the node's input, slot of the argument)])."""
    found: dict[int, tuple[Any, _Pairs]] = {}
    if not prepared.edges:
        return found
    since, used = prepared.since, dict[Edge, int]()
    stack = [node for node in targets if _order(node) > since]
    seen = {node._unique_id() for node in stack}
    while stack:
        node = stack.pop()
        for index, (following, output) in enumerate(node.next_functions):
            if following is None:
                continue
            edge = following._unique_id(), output
            slots = prepared.edges.get(edge)
            if slots is not None:
                turn = used.get(edge, 0)
                used[edge] = turn + 1
                found.setdefault(node._unique_id(), (node, []))[1].append((index, slots[turn % len(slots)]))
            elif edge[0] not in seen and _order(following) > since:
                seen.add(edge[0])
                stack.append(following)
    return found


def _order(node: Any) -> int:
    """Nodes are numbered as they are made; leaves come before all of them."""
    number: int = node._sequence_nr()
    return number if number < _LEAF else -1


def _sum(earlier: Any, gradient: Any) -> Any:
    return Tensor(earlier.asnumpy() + gradient.asnumpy(), gradient.dtype)
