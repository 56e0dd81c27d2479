"""Observe the gradients of single calls at the autograd nodes that the call made.

Nothing is added to the graph: hooks on existing nodes see the gradients that flow anyway. A node belongs to the call
when it got its sequence number during the call. The gradient of output k is what arrives at its node; the gradient of
an argument is what leaves the call's nodes along the edge to that argument. Two uses of one argument inside the call
are added; uses outside of the call are not included.

A cell that ``ms.grad`` differentiates itself opens the graph inside its call: its arguments have their edges only
afterwards, and are looked at then.

MindSpore before 2.9 has no such nodes: there only the gradients of outputs are observed (``output_gradients``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mindspore import Tensor

from msprobe.adapters.mindspore.tensor_watch import watch
from msprobe.adapters.mindspore.usual_gradients import Fed, OneNode, added
from msprobe.adapters.mindspore.versions import native_executor
from msprobe.core.backend.protocols import GradientReceiver, Template
from msprobe.core.capture.containers import shape_of, tensors_in
from msprobe.core.capture.interned import interned
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.call_gradients import CallGradients

_executor = native_executor()
_enable_grad, _grad_flag = _executor.enable_grad, _executor.grad_flag
_LEAF = 2**64 - 1
_NO_KEYWORDS: dict[str, Any] = {}  # shared by all calls; never changed
Edge = tuple[int, int]
Targets = dict[int, tuple[Any, list[tuple[int, int]]]]
"""The nodes that made outputs, by identity, each with pairs of an output of the node and an output of the call."""


class Prepared:
    """The state of a call before it runs: the edges from its arguments into the graph, and where new nodes begin."""

    __slots__ = ("_arguments", "edges", "keywords", "positional", "since", "slots")

    def __init__(self, since: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.since = since
        self.edges: dict[Edge, tuple[int, ...]] = {}
        self.positional: tuple[Any, ...] = ()
        self.keywords = _NO_KEYWORDS
        self.slots = 0
        self._arguments: tuple[tuple[Any, ...], Mapping[str, Any]] | None = (args, kwargs)

    def find_edges(self) -> None:
        """Find the edges of the arguments; a second call does nothing."""
        if self._arguments is None:
            return
        (args, kwargs), self._arguments = self._arguments, None
        self.positional = interned([shape_of(value, self.slot, Tensor) for value in args])
        if kwargs:
            shapes = {key: shape_of(value, self.slot, Tensor) for key, value in kwargs.items()}
            self.keywords = {key: shape for key, shape in shapes.items() if shape is not None}

    def slot(self, tensor: Any) -> int | None:
        """Return the slot of one argument, or None when no gradient can reach it."""
        node = tensor._grad_node if tensor._requires_grad else None
        if node is None:
            return None
        number = self.slots
        self.slots = number + 1
        order = node._sequence_nr()
        if self.since < order < _LEAF:
            self.since = order
        edge = node._unique_id(), tensor._output_index
        self.edges[edge] = (*self.edges.get(edge, ()), number)
        return number


class MindSporeGradientTap:
    """Implements ``GradientTap``."""

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread
        self._latest = -1  # the newest node so far: nodes of the next call are newer

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Prepared | None:
        if not _enable_grad():
            return None
        prepared = Prepared(self._latest, args, kwargs)
        if _grad_flag():
            prepared.find_edges()
        return prepared

    def template(self, prepared: Prepared) -> Template:
        prepared.find_edges()
        return prepared.positional, prepared.keywords

    def attach(self, prepared: Prepared, result: Any, receiver: GradientReceiver, report_early: bool = False) -> None:
        if type(result) is Tensor and self._attach_one(prepared, result, receiver):
            return
        targets: Targets = {}
        count = 0
        for tensor in tensors_in(result, Tensor):
            node = tensor._grad_node if tensor._requires_grad else None
            if node is not None:
                self._note(node._sequence_nr())
                targets.setdefault(node._unique_id(), (node, []))[1].append((tensor._output_index, count))
                count += 1
        if count:
            receiver.expect(count)
            self._attach_many(targets, prepared, receiver)

    def watch(self, tensor: Any, report: Callable[[Any], None]) -> Callable[[], None] | None:
        return watch(tensor, self._thread, report)

    def _attach_one(self, prepared: Prepared, result: Any, receiver: GradientReceiver) -> bool:
        """Attach to a call with one output that one node made, the usual case; return False for any other call."""
        node = result._grad_node if result._requires_grad else None
        if node is None:
            return True
        order = node._sequence_nr()
        fed = _direct(node, prepared) if prepared.since < order < _LEAF else None
        if fed is None:
            return False
        self._note(order)
        receiver.expect(1)
        one = OneNode(receiver, self._thread, result._output_index, fed)
        node.register_prehook(one.before)
        if fed:
            node.register_hook(one.after)
        return True

    def _attach_many(self, targets: Targets, prepared: Prepared, receiver: GradientReceiver) -> None:
        contributions, edges = _contributions(targets, prepared), prepared.edges
        many = CallGradients(receiver, self._thread, contributions, len(targets), added)
        for identity, (node, outputs) in targets.items():
            through = [(number, edges[identity, number][0]) for number, _ in outputs if (identity, number) in edges]
            node.register_prehook(many.before(interned(outputs), interned(through)))
        for identity, (node, fed) in contributions.items():
            node.register_hook(many.after(identity, interned(fed.items())))

    def _note(self, order: int) -> None:
        if self._latest < order < _LEAF:
            self._latest = order


def _direct(node: Any, prepared: Prepared) -> Fed | None:
    """Return which arguments the only new node of a call uses; None when the call made several nodes."""
    fed: Fed = {}
    edges, since = prepared.edges, prepared.since
    for index, (following, output) in enumerate(node.next_functions):
        if following is None:
            continue
        slots = edges.get((following._unique_id(), output))
        if slots is None:
            if since < following._sequence_nr() < _LEAF:
                return None
        elif len(slots) > 1:
            return None
        else:
            fed[index] = slots[0]
    return fed


def _contributions(targets: Targets, prepared: Prepared) -> dict[int, tuple[Any, Fed]]:
    """Return the nodes of the call that gradients of its arguments come from, by identity."""
    contributions: dict[int, tuple[Any, Fed]] = {}
    edges, since = prepared.edges, prepared.since
    if not edges:
        return contributions
    used = dict[Edge, int]()
    stack = [(identity, node) for identity, (node, _) in targets.items() if since < node._sequence_nr() < _LEAF]
    seen = set(targets)
    while stack:
        identity, node = stack.pop()
        for index, (following, output) in enumerate(node.next_functions):
            if following is None:
                continue
            other = following._unique_id()
            edge = other, output
            slots = edges.get(edge)
            if slots is not None:
                turn = used.get(edge, 0)
                used[edge] = turn + 1
                contributions.setdefault(identity, (node, {}))[1][index] = slots[turn % len(slots)]
            elif other not in seen and since < following._sequence_nr() < _LEAF:
                seen.add(other)
                stack.append((other, following))
    return contributions
