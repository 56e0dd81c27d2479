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

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msprobe.core.backend.protocols import GradientReceiver, Template
from msprobe.core.capture.describe import Node
from msprobe.core.capture.thread_state import ThreadState, quiet_hook
from msprobe.core.dump.record.call_record import CallRecord
from msprobe.core.dump.record.error_boundary import never_raises, records
from msprobe.core.dump.record.step_recorder import StepRecorder

NodeMaker = Callable[[int, str], Node]


class BackwardCalls:
    """The backward calls of one step that have begun and not ended."""

    def __init__(self, recorder: StepRecorder) -> None:
        self.recorder = recorder
        self._open: dict[int, OpenPass] = {}
        self._over = False

    def begin(self, call: BackwardCall) -> OpenPass | None:
        """Return the current backward pass of a call, which its first gradient begins; None when the step is over."""
        if self._over:
            return None
        found = self._open.get(id(call))
        return self._open.setdefault(id(call), OpenPass(call, self.new_record(call))) if found is None else found

    def new_record(self, call: BackwardCall) -> CallRecord:
        """Return an empty record for one backward pass of a call."""
        record = CallRecord(call.name, None)
        record.parent = call.parent
        if self.recorder.in_scope(call.name) and self.recorder.plan.bodies:
            record.body = {}
        return record

    def remove(self, call: BackwardCall) -> None:
        """Forget the pass of a call that has ended."""
        self._open.pop(id(call), None)

    def running_module(self) -> str | None:
        """Return the backward entry of the module whose backward began last and has not ended."""
        running = (one.call for one in reversed(list(self._open.values())))
        return next((call.name for call in running if call.is_module), None)

    def finish_open(self) -> None:
        """Write the calls that have not got all their gradients."""
        for one in list(self._open.values()):
            if not self.recorder.closed:
                one.call.end(one, {})

    def end_step(self) -> None:
        """End the step: what other threads bring from now on, or measure at this moment, comes too late."""
        self._over = True
        self.finish_open()


class OpenPass:
    """One backward pass of a call that has begun: the nodes that have arrived, and the record, None when it is written.

    The end of a step and the thread that brings the last gradient may end it at one time; so it has a lock. Nothing is
    measured while that is held: a device may wait for another thread.
    """

    __slots__ = ("call", "inputs", "lock", "outputs", "record", "wanted")

    def __init__(self, call: BackwardCall, record: CallRecord) -> None:
        self.call = call
        self.record: CallRecord | None = record
        self.wanted = record.body is not None
        self.lock = threading.RLock()
        self.outputs: dict[int, Node] = {}
        self.inputs: dict[int, Node] = {}


class BackwardCall:
    """Receive the gradients of one call (implements ``GradientReceiver``)."""

    __slots__ = ("_calls", "_expected", "_keywords", "_positional", "errors", "is_module", "name", "parent", "runtime")

    def __init__(self, calls: BackwardCalls, name: str, parent: str | None, template: Template) -> None:
        self._calls = calls
        self.errors = calls.recorder.errors
        self.runtime = calls.recorder.runtime
        self.name = name
        self.parent = parent
        self.is_module = False
        self._expected = 0
        self._positional, self._keywords = template

    def expect(self, outputs: int) -> None:
        """Expect gradients of this many outputs."""
        self._expected = outputs

    @records
    def grad_output(self, position: int, gradient: Any) -> None:
        """Take the gradient of the output at ``position``."""
        one, recorder = self._begin(), self._calls.recorder
        if one is not None and one.wanted and recorder.modes.input:
            prefix = recorder.save_name(self.name)
            one.outputs[position] = recorder.describer.node(gradient, prefix and f"{prefix}.input.{position}")

    @records
    def grad_input(self, slot: int, gradient: Any) -> None:
        """Take the gradient of the argument in ``slot``."""
        one, recorder = self._begin(), self._calls.recorder
        if one is not None and one.wanted and recorder.modes.output:
            prefix = recorder.save_name(self.name) and f"{self.name}.output"
            place = prefix and _place((*self._positional, self._keywords), slot, prefix)
            one.inputs[slot] = recorder.describer.node(gradient, place)

    @records
    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        """Take the other gradients of the arguments by their slots, and end the call."""
        one = self._begin()
        if one is not None:
            self.end(one, gradients)

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
            record.body["output"] = self._fill(grad_inputs, {})
        recorder.write_call(record)

    @records
    def end(self, one: OpenPass, gradients: Mapping[int, Any]) -> None:
        """Write what has arrived of a backward pass, and these last gradients, unless that was done."""
        recorder = self._calls.recorder
        outputs = self._fill(gradients, one.inputs) if one.wanted and recorder.modes.output else None
        with one.lock:
            record, one.record = one.record, None
            if record is None:
                return
            if record.body is not None and recorder.modes.input:
                record.body["input"] = [one.outputs.get(position) for position in range(self._expected)]
            if record.body is not None and outputs is not None:
                record.body["output"] = outputs
            self._calls.remove(self)
            recorder.write_call(record)

    def _begin(self) -> OpenPass | None:
        """Return the current backward pass; None when nothing more is recorded."""
        return None if self._calls.recorder.closed else self._calls.begin(self)

    def _fill(self, gradients: Mapping[int, Any], described: Mapping[int, Node]) -> list[Node]:
        """Return the template of the arguments with each slot replaced by the node of its gradient."""
        recorder = self._calls.recorder
        node, prefix = recorder.describer.node, recorder.save_name(self.name) and f"{self.name}.output"

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
