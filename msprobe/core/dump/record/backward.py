"""Backward records: filled as gradients arrive, written with the last one.

``input`` holds the gradients of the call's outputs, ``output`` those of its arguments in the order of the arguments,
with null where no gradient flows. A second backward pass through the same call (retain_graph) replaces the record of
the first.

``BackwardCalls`` and ``BackwardCall`` make the records. ``CallGradients`` is the part that adapters use: it collects
the gradients of one call at the autograd nodes of the call and passes them to a receiver such as ``BackwardCall``.

Thousands of calls wait for their gradients at a time, so a waiting call consists of few objects, and of tuples that it
shares with other calls: every further object makes the garbage collector run sooner, which walks the whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msprobe.core.backend.protocols import GradientReceiver, Template
from msprobe.core.capture.describe import Node
from msprobe.core.capture.thread_state import ThreadState, quiet_hook
from msprobe.core.dump.record.call_record import CallRecord
from msprobe.core.dump.record.error_boundary import never_raises, records
from msprobe.core.dump.record.step_recorder import StepRecorder

NodeMaker = Callable[[int, str], Node]
_NO_NODES: dict[int, Node] = {}


class BackwardCalls:
    """The backward calls of one step that have begun and not ended."""

    def __init__(self, recorder: StepRecorder) -> None:
        self.recorder = recorder
        self._open: dict[int, BackwardCall] = {}

    def begin(self, call: BackwardCall) -> CallRecord:
        """Return the record of the current backward pass of a call; its first gradient makes it."""
        if call.record is None:
            self._open[id(call)] = call
            call.record = self.new_record(call)
        return call.record

    def new_record(self, call: BackwardCall) -> CallRecord:
        """Return an empty record for one backward pass of a call."""
        record = CallRecord(call.name, None)
        record.parent = call.parent
        if self.recorder.in_scope(call.name) and self.recorder.plan.bodies:
            record.body = {}
        return record

    def end(self, call: BackwardCall) -> None:
        """Write the record of a call that has all its gradients."""
        self._open.pop(id(call), None)
        record = call.record
        if record is not None:
            self.recorder.write_call(record)
        call.reset()

    def running_module(self) -> str | None:
        """Return the backward entry of the module whose backward began last and has not ended."""
        return next((call.name for call in reversed(list(self._open.values())) if call.is_module), None)

    def end_step(self) -> None:
        """End the step: write the calls that have not got all their gradients."""
        for call in list(self._open.values()):
            call.grad_inputs({})


class BackwardCall:
    """Receive the gradients of one call (implements ``GradientReceiver``)."""

    __slots__ = (
        "_calls",
        "_expected",
        "_inputs",
        "_keywords",
        "_outputs",
        "_positional",
        "errors",
        "is_module",
        "name",
        "parent",
        "record",
        "runtime",
    )

    def __init__(self, calls: BackwardCalls, name: str, parent: str | None, template: Template) -> None:
        self._calls = calls
        self.errors = calls.recorder.errors
        self.runtime = calls.recorder.runtime
        self.name = name
        self.parent = parent
        self.is_module = False
        self.record: CallRecord | None = None
        self._expected = 0
        self._outputs: list[Node] | None = None
        self._inputs: dict[int, Node] | None = None
        self._positional, self._keywords = template

    def expect(self, outputs: int) -> None:
        """Expect gradients of this many outputs."""
        self._expected = outputs

    @records
    def grad_output(self, position: int, gradient: Any) -> None:
        """Take the gradient of the output at ``position``."""
        recorder = self._calls.recorder
        if recorder.closed:
            return
        if self._calls.begin(self).body is not None and recorder.modes.input:
            prefix = recorder.save_name(self.name)
            self._nodes()[position] = recorder.describer.node(gradient, prefix and f"{prefix}.input.{position}")

    @records
    def grad_input(self, slot: int, gradient: Any) -> None:
        """Take the gradient of the argument in ``slot``."""
        recorder = self._calls.recorder
        if recorder.closed:
            return
        if self._calls.begin(self).body is not None and recorder.modes.output:
            prefix = recorder.save_name(self.name) and f"{self.name}.output"
            place = prefix and _place((*self._positional, self._keywords), slot, prefix)
            self._inputs = self._inputs or {}
            self._inputs[slot] = recorder.describer.node(gradient, place)

    @records
    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        """Take the other gradients of the arguments by their slots, and end the call."""
        recorder = self._calls.recorder
        if recorder.closed:
            return
        body = self._calls.begin(self).body
        if body is not None and recorder.modes.input:
            body["input"] = self._nodes()
        if body is not None and recorder.modes.output:
            body["output"] = self._fill(gradients)
        self._calls.end(self)

    @records
    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        """Take all gradients of the call at once, without the bookkeeping of an open record."""
        recorder = self._calls.recorder
        if recorder.closed:
            return
        record = self._calls.new_record(self)
        if record.body is not None and recorder.modes.input:
            prefix = recorder.save_name(self.name)
            record.body["input"] = recorder.describer.sequence(grad_outputs, prefix and f"{prefix}.input")
        if record.body is not None and recorder.modes.output:
            record.body["output"] = self._fill(grad_inputs)
        recorder.write_call(record)

    def reset(self) -> None:
        """Prepare for another backward pass."""
        self.record = None
        self._outputs = self._inputs = None

    def _nodes(self) -> list[Node]:
        """Return the list of the output gradients' nodes; made at the first one, as most calls get all at once."""
        if self._outputs is None:
            self._outputs = [None] * self._expected
        return self._outputs

    def _fill(self, gradients: Mapping[int, Any]) -> list[Node]:
        """Return the template of the arguments with each slot replaced by the node of its gradient."""
        recorder = self._calls.recorder
        node, prefix = recorder.describer.node, recorder.save_name(self.name) and f"{self.name}.output"
        described, self._inputs = self._inputs or _NO_NODES, None

        def make(slot: int, save_as: str) -> Node:
            return described[slot] if slot in described else node(gradients.get(slot), save_as)

        filled = [
            None if shape is None else _fill(shape, make, prefix and f"{prefix}.{number}")
            for number, shape in enumerate(self._positional)
        ]
        if self._keywords:
            filled.append(_fill(self._keywords, make, prefix and f"{prefix}.{len(filled)}"))
        return filled


def _fill(shape: Any, make: NodeMaker, prefix: str) -> Node:
    if isinstance(shape, int):
        return make(shape, prefix)
    if isinstance(shape, list):
        return [_fill(part, make, prefix and f"{prefix}.{number}") for number, part in enumerate(shape)]
    if isinstance(shape, dict):
        return {key: _fill(part, make, prefix and f"{prefix}.{key}") for key, part in shape.items()}
    return None


def _place(shapes: Sequence[Any], slot: int, prefix: str) -> str:
    """Return the name that ``_fill`` gives the value in ``slot``."""
    found: list[str] = []

    def note(number: int, name: str) -> None:
        if number == slot:
            found.append(name)

    for number, shape in enumerate(shapes):
        _fill(shape, note, f"{prefix}.{number}")
    return found[0] if found else ""


Slots = Collection[tuple[int, int]]
"""Pairs: the position among the gradients of a node, and the position of the output or the slot of the argument."""


class CallGradients:
    """Make the hooks of the nodes, and report the gradients of the arguments when the last one has arrived.

    Args:
        receiver: the gradients are passed to it.
        thread: the session's per-thread state.
        feeding: the keys of the nodes whose inputs are arguments of the call.
        targets: how many nodes made outputs.
        add: returns the sum of two gradients of one argument, computed outside of any graph.
        single: the slots whose gradient one node brings. It is reported at once: the pass goes on while other nodes of
            the call are to come, and copies a gradient that is held meanwhile.
    """

    __slots__ = (
        "_add",
        "_feeding",
        "_gradients",
        "_outputs_left",
        "_pending",
        "_receiver",
        "_single",
        "_targets",
        "_thread",
    )

    def __init__(
        self,
        receiver: GradientReceiver,
        thread: ThreadState,
        feeding: Iterable[int],
        targets: int,
        add: Callable[[Any, Any], Any],
        single: Collection[int] = (),
    ) -> None:
        self._receiver = receiver
        self._thread = thread
        self._feeding = tuple(feeding)
        self._targets = targets
        self._add = add
        self._single = single
        self._gradients: dict[int, Any] = {}
        self._pending = set(self._feeding)
        self._outputs_left = targets

    def before(self, outputs: Slots, through: Slots) -> Callable[..., None]:
        """Return the hook of a node that made outputs.

        Args:
            outputs: the outputs that it made.
            through: the arguments that the call returned unchanged as outputs of this node.
        """
        return _NodeHook(self._thread, self.on_output_gradients, outputs, through)

    def after(self, node: int, slots: Slots) -> Callable[..., None]:
        """Return the hook of a node whose inputs are arguments, in ``slots``."""
        return _NodeHook(self._thread, self.on_input_gradients, node, slots)

    @property
    def errors(self) -> Any:
        """Return the log of errors, for ``never_raises``."""
        return self._receiver.errors

    def on_output_gradients(self, grad_outputs: Any, outputs: Slots, through: Slots) -> None:
        """Take the gradients that have arrived at a node that made outputs."""
        for number, position in outputs:
            self._receiver.grad_output(position, gradient_at(grad_outputs, number))
        self._collect(through, grad_outputs)
        self._outputs_left -= 1
        if not self._pending and self._outputs_left <= 0:
            self._report()

    def on_input_gradients(self, grad_inputs: Any, node: int, slots: Slots) -> None:
        """Take the gradients that a node has passed on to arguments."""
        self._collect(slots, grad_inputs)
        self._pending.discard(node)
        if not self._pending:
            self._report()

    @never_raises
    def _collect(self, slots: Slots, gradients: Any) -> None:
        for number, slot in slots:
            gradient = gradient_at(gradients, number)
            if gradient is not None and slot in self._single:
                self._receiver.grad_input(slot, gradient)
            elif gradient is not None:
                earlier = self._gradients.get(slot)
                self._gradients[slot] = gradient if earlier is None else self._add(earlier, gradient)

    def _report(self) -> None:
        gradients, self._gradients = self._gradients, {}
        self._pending = set(self._feeding)
        self._outputs_left = self._targets
        self._receiver.grad_inputs(gradients)


class _NodeHook:
    """Report the gradients that pass one node, with the slots that were given when the hook was made."""

    __slots__ = ("_first", "_report", "_second", "_thread")

    def __init__(self, thread: ThreadState, report: Callable[[Any, Any, Any], None], first: Any, second: Any) -> None:
        self._thread = thread
        self._report = report
        self._first = first
        self._second = second

    @quiet_hook
    def __call__(self, gradients: Any, others: Any = None) -> None:
        self._report(gradients, self._first, self._second)


def gradient_at(gradients: Any, position: int) -> Any:
    """Return the gradient at ``position``; None past the end.

    Args:
        gradients: the argument of a hook: several gradients in a tuple, or a single one.
    """
    if type(gradients) is not tuple and not isinstance(gradients, (tuple, list)):
        return gradients if position == 0 else None
    return gradients[position] if position < len(gradients) else None
