"""Observe the gradients of single calls. ``make_gradient_tap`` chooses the tap for the installed version.

The gradients of a call are observed at the autograd nodes that the call created. Nothing is added to the graph: hooks
on existing nodes see the gradients that flow anyway. A node belongs to the call when it got its sequence number during
the call. The gradient of output k is what arrives at its node; the gradient of an argument is what leaves the call's
nodes along the edge to that argument. Two uses of one argument inside the call are added; uses outside of the call are
not included.

A cell that ``ms.grad`` differentiates itself opens the graph inside its call: its arguments have their edges only
afterwards, and are looked up then.

Most calls created one node, which produced the only output: ``SingleNodeHooks`` serves them, and ``CallGradients`` all
others. Thousands of calls wait for their gradients at the same time, so few objects are kept for each: more objects
would start the garbage collector more often, which walks the whole program.

MindSpore before 2.9 has no such nodes: there only the gradients of outputs are observed (``output_gradient_tap``).
MindSpore and MSAdapter use the same taps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mindspore
from mindspore import Tensor

from msprobe.adapters.mindspore.taps.output_gradient_tap import MindSporeOutputGradientTap
from msprobe.adapters.mindspore.taps.tensor_hooks import watch
from msprobe.adapters.mindspore.tensors.bfloat16 import widened
from msprobe.adapters.mindspore.versions import has_gradient_nodes, native_executor
from msprobe.core.backend.protocols import GradientReceiver, GradientTap, Template
from msprobe.core.capture.containers import interned, shape_of, tensors_in
from msprobe.core.capture.thread_state import ThreadState, quiet_hook
from msprobe.core.dump.record.backward import CallGradients, gradient_at
from msprobe.core.dump.record.error_boundary import never_raises

_executor = native_executor()
_enable_grad, _grad_flag = _executor.enable_grad, _executor.grad_flag
_LEAF = 2**64 - 1
_NO_KEYWORDS: dict[str, Any] = {}  # shared by all calls; never changed

Edge = tuple[int, int]
Fed = dict[int, int]
"""The slot of the call's arguments by the input of a node."""
Targets = dict[int, tuple[Any, list[tuple[int, int]]]]
"""The nodes that made outputs, by identity, each with pairs of an output of the node and an output of the call."""


def make_gradient_tap(thread: ThreadState) -> GradientTap:
    """Return the tap that this version of MindSpore can serve."""
    return MindSporeGradientTap(thread) if has_gradient_nodes() else MindSporeOutputGradientTap(thread)


class MindSporeGradientTap:
    """Implements ``GradientTap``."""

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread
        self._latest = -1  # the newest node so far: nodes of the next call are newer

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> GradientSlots | None:
        if not _enable_grad():
            return None
        prepared = GradientSlots(self._latest, args, kwargs)
        if _grad_flag():
            prepared.find_edges()
        return prepared

    def template(self, prepared: GradientSlots) -> Template:
        prepared.find_edges()
        return prepared.positional, prepared.keywords

    def attach(
        self, prepared: GradientSlots, result: Any, receiver: GradientReceiver, report_early: bool = False
    ) -> None:
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

    def _attach_one(self, prepared: GradientSlots, result: Any, receiver: GradientReceiver) -> bool:
        """Attach to a call with one output that one node made, the usual case; return False for any other call."""
        node = result._grad_node if result._requires_grad else None
        if node is None:
            return True
        order = node._sequence_nr()
        fed = _single_node_slots(node, prepared) if prepared.since < order < _LEAF else None
        if fed is None:
            return False
        self._note(order)
        receiver.expect(1)
        one = SingleNodeHooks(receiver, self._thread, result._output_index, fed)
        node.register_prehook(one.before)
        if fed:
            node.register_hook(one.after)
        return True

    def _attach_many(self, targets: Targets, prepared: GradientSlots, receiver: GradientReceiver) -> None:
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


class GradientSlots:
    """The state of a call before it runs: the edges from its arguments into the graph, and where new nodes begin."""

    __slots__ = ("_arguments", "count", "edges", "keywords", "positional", "since")

    def __init__(self, since: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.since = since
        self.edges: dict[Edge, tuple[int, ...]] = {}
        self.positional: tuple[Any, ...] = ()
        self.keywords = _NO_KEYWORDS
        self.count = 0
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
        number = self.count
        self.count = number + 1
        order = node._sequence_nr()
        if self.since < order < _LEAF:
            self.since = order
        edge = node._unique_id(), tensor._output_index
        self.edges[edge] = (*self.edges.get(edge, ()), number)
        return number


class SingleNodeHooks:
    """Reports the gradients that pass one node.

    Args:
        receiver: takes the gradients.
        thread: the state of the present thread.
        number: the output of the node that is the output of the call.
        fed: the inputs of the node that are arguments; ``after`` must be registered only when there are any.
    """

    __slots__ = ("_fed", "_number", "_receiver", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, number: int, fed: Fed) -> None:
        self._receiver = receiver
        self._thread = thread
        self._number = number
        self._fed = fed

    @quiet_hook
    def before(self, grad_outputs: Any, others: Any = None) -> None:
        """Report the gradient of the output."""
        self._receiver.grad_output(0, gradient_at(grad_outputs, self._number))
        if not self._fed:
            self._receiver.grad_inputs({})

    @quiet_hook
    def after(self, grad_inputs: Any, grad_outputs: Any) -> None:
        """Report the gradients of the arguments."""
        gradients: dict[int, Any] = {}
        self._collect(grad_inputs, gradients)
        self._receiver.grad_inputs(gradients)

    @property
    def errors(self) -> Any:
        """Return the log of errors, for ``never_raises``."""
        return self._receiver.errors

    @never_raises
    def _collect(self, arrived: Any, gradients: dict[int, Any]) -> None:
        for number, slot in self._fed.items():
            gradient = gradient_at(arrived, number)
            if gradient is not None:
                earlier = gradients.get(slot)
                gradients[slot] = gradient if earlier is None else added(earlier, gradient)


def _single_node_slots(node: Any, prepared: GradientSlots) -> Fed | None:
    """Return the slot of each argument whose gradient ``node`` itself produces; None when the call made more nodes."""
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


def _contributions(targets: Targets, prepared: GradientSlots) -> dict[int, tuple[Any, Fed]]:
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


def added(earlier: Any, gradient: Any) -> Any:
    """Return the sum of two gradients of one argument, computed on the host and outside of any graph."""
    if gradient.dtype == mindspore.bfloat16:
        return Tensor(widened(earlier) + widened(gradient), gradient.dtype)
    return Tensor(earlier.asnumpy() + gradient.asnumpy(), gradient.dtype)
