"""The collector of one step: it sees calls begin and end, asks the selection, and hands finished records to the sink.

It owns the calls that are still open and nothing else; a new step gets a new collector. Every method that a tap calls is
shielded, so nothing that goes wrong here reaches the user's program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msprobe.core.backend.model import Backend
from msprobe.core.capture.describe import Describer, Node
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.stack import StackTable
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.backward import BackwardCall
from msprobe.core.dump.leaf import LeafTask
from msprobe.core.dump.modules import ModuleSite
from msprobe.core.dump.plan import DumpPlan
from msprobe.core.dump.record import UNRELATED, CallRecord, EarlyRecord, StackRecord
from msprobe.core.dump.shield import ErrorLog, shielded
from msprobe.core.selection.build import Selection
from msprobe.core.store.sink import Sink


class Collector:
    """Observer of API calls, module calls, backward passes and parameter gradients of one step."""

    def __init__(
        self, plan: DumpPlan, selection: Selection, backend: Backend, leaves: LeafTask[Any], sink: Sink
    ) -> None:
        self.errors = ErrorLog(None)
        self.thread = ThreadState()
        self.stacks = StackTable()
        self.passed_over: list[str] = []
        self.recorded = 0
        self._plan = plan
        self._selection = selection
        self._modes = selection.modes
        self._runtime = backend.runtime
        self._gradients = backend.gradients if selection.modes.backward else None
        self._sink = sink
        self._values = Describer(
            leaves.leaf, backend.values.is_tensor, backend.values.handlers(), backend.values.keyed()
        )
        self._declared: set[int] = set()
        self._open: dict[int, CallRecord] = {}
        self._open_backward: dict[int, BackwardCall] = {}
        self._closed = False

    def share(self, thread: ThreadState, stacks: StackTable, errors: ErrorLog) -> None:
        """Use the session's per-thread state, interned stacks and error log instead of own ones."""
        self.thread, self.stacks, self.errors = thread, stacks, errors

    # ---- calls of functions ----

    @shielded
    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord | None:
        number = next(site.calls)
        if not site.recorded and not self._plan.construct:
            return None
        name = f"{site.stem}{number}.forward"
        scopes = self.thread.scopes
        record = self._begin(name, f"{site.stem}{number}.backward", scopes, site.recorded, args, kwargs)
        if record.grads is None and record.body is None and not self._plan.construct and record.stack is None:
            self._close_scope(name)
            return None
        return record

    @shielded
    def end(self, record: CallRecord, result: Any) -> None:
        try:
            if record.body is not None and self._modes.output:
                self._add_output(record, result)
        finally:
            self._finish(record)
        if record.grads is not None:
            self._await_backward(record, result)

    @shielded
    def fail(self, record: CallRecord, error: BaseException) -> None:
        if record.body is not None and not self._runtime.expected(error):
            record.body["error"] = f"{type(error).__name__}: {error}"[:500]
        self._finish(record)

    # ---- calls of modules ----

    @shielded
    def module_begin(self, site: ModuleSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord:
        number = next(site.calls)
        scopes = self.thread.scopes
        record = self._begin(
            f"{site.stem}.forward.{number}", f"{site.stem}.backward.{number}", scopes, True, args, kwargs
        )
        record.owner = site
        if self._plan.construct:
            self._relate_module(record, site, scopes)
        scopes.append(record)
        return record

    @shielded
    def module_end(self, record: CallRecord, result: Any) -> None:
        self._leave(record)
        try:
            if record.body is not None and self._modes.output:
                self._add_output(record, result)
                self._add_parameters(record)
        finally:
            self._finish(record)
        if record.grads is not None:
            self._await_backward(record, result)

    @shielded
    def module_fail(self, record: CallRecord, error: BaseException) -> None:
        self._leave(record)
        if record.body is not None and not self._runtime.expected(error):
            record.body["error"] = f"{type(error).__name__}: {error}"[:500]
        self._finish(record)

    @shielded
    def enter(self, name: str) -> CallRecord:
        """A named part of the step (``optimizer``, ``clip_grad``) that is the parent of the calls inside it."""
        record = CallRecord(name, None)
        record.parent = None
        if self._plan.construct:
            self._write(record)
        self.thread.scopes.append(record)
        return record

    @shielded
    def leave(self, record: CallRecord) -> None:
        self._leave(record)

    # ---- backward ----

    @shielded
    def backward_output(self, call: BackwardCall, position: int, gradient: Any) -> None:
        record = self._backward_record(call)
        if record is not None and record.body is not None and self._modes.input:
            place = self._place(call.name)
            call.set_output(position, self._node(gradient, place and f"{place}.input.{position}"))

    @shielded
    def backward_done(self, call: BackwardCall, gradients: Mapping[int, Any]) -> None:
        record = self._backward_record(call)
        if record is None:
            return
        if record.body is not None and self._modes.output:
            place = self._place(call.name)
            record.body["output"] = call.fill(gradients, self._node, place and f"{place}.output")
        self._finish_backward(call)

    @shielded
    def backward_whole(self, call: BackwardCall, grad_outputs: Sequence[Any], gradients: Mapping[int, Any]) -> None:
        """All gradients of a call at once: the usual case, without the bookkeeping of an open record."""
        if self._closed:
            return
        record = CallRecord(call.name, None)
        record.parent = call.parent
        scope = self._selection.scope
        if self._plan.bodies and (scope is None or scope.begin(call.name)):
            place = self._place(call.name)
            record.body = {}
            if self._modes.input:
                record.body["input"] = self._values.sequence(grad_outputs, place and f"{place}.input")
            if self._modes.output:
                record.body["output"] = call.fill(gradients, self._values.node, place and f"{place}.output")
        self._finish(record)

    @shielded
    def parameter_gradient(self, site: ModuleSite, key: str, gradient: Any) -> None:
        """The gradient that one backward pass brings to a module's parameter."""
        if self._closed or not self._modes.parameters_grad or not self._plan.bodies:
            return
        name = site.gradient_name(key)
        if not self._keeps_gradients_of(site, name):
            self._pass_over(name)
            return
        place = self._place(name)
        self.recorded += 1
        self._write(CallRecord(name, {key: [self._node(gradient, place and f"{place}.{key}")]}))

    # ---- the step as a whole ----

    def early(self) -> Iterable[EarlyRecord]:
        """Calls that have been open since the last time this was asked: the inputs of long calls go to disk early."""
        found = []
        for record in list(self._open.values()):
            if record.saved_early is None:
                record.saved_early = True
                found.append(EarlyRecord(record))
            elif record.saved_early is False:
                record.saved_early = None
        return found

    def finish(self) -> None:
        """The step is over: write what is still incomplete and take nothing more."""
        for call in list(self._open_backward.values()):
            self._finish_backward(call)
        self._closed = True

    # ---- inside ----

    def _begin(
        self,
        name: str,
        backward: str,
        scopes: list[CallRecord],
        recorded: bool,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> CallRecord:
        keep = recorded
        keep_backward = recorded and self._gradients is not None
        record = CallRecord(name, None)
        record.backward = backward
        if recorded and self._selection.filtered:
            keep, keep_backward = self._select(record, backward, scopes, keep, keep_backward)
        if keep and self._modes.forward:
            self._open_forward(record, args, kwargs)
        if keep and self._plan.stacks:
            self._note_stack(record)
        if self._plan.construct:
            record.parent = scopes[-1].name if scopes else None
        if keep_backward and self._gradients is not None:
            record.grads = self._gradients.prepare(args, kwargs)
        return record

    def _open_forward(self, record: CallRecord, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._plan.bodies:
            record.body = {}
            self._open[id(record)] = record
            if self._modes.input:
                place = self._place(record.name)
                record.body["input_args"] = self._values.sequence(args, place and f"{place}.input")
                record.body["input_kwargs"] = self._values.keywords(kwargs, place and f"{place}.kwargs")
            if self._runtime.recomputing():
                record.body["is_recompute"] = True

    def _note_stack(self, record: CallRecord) -> None:
        """The stack is that of the forward call, whatever phase is recorded: it is where the user looks."""
        record.stack = self.stacks.capture()
        if record.stack not in self._declared:
            self._declared.add(record.stack)
            self._sink.write(StackRecord(record.stack, self.stacks.text(record.stack)))

    def _select(
        self, record: CallRecord, backward: str, scopes: list[CallRecord], keep: bool, keep_backward: bool
    ) -> tuple[bool, bool]:
        """Apply list and scope to a call: are its forward and its backward wanted? Scope decides on the backward later."""
        selection = self._selection
        if selection.listed is not None:
            above = scopes[-1].children_kept if scopes and selection.inherits else (False, False)
            listed = (above[0] or selection.listed(record.name), above[1] or selection.listed(backward))
            record.children_kept = listed
            keep, keep_backward = keep and listed[0], keep_backward and listed[1]
        if selection.scope is not None:
            keep = selection.scope.begin(record.name) and keep
        if not keep:
            self._pass_over(record.name)
        return keep, keep_backward

    def _add_output(self, record: CallRecord, result: Any) -> None:
        place = self._place(record.name)
        spread = result if isinstance(result, tuple) else (result,)
        assert record.body is not None
        record.body["output"] = self._values.sequence(spread, place and f"{place}.output")

    def _add_parameters(self, record: CallRecord) -> None:
        place = self._place(record.name)
        assert record.body is not None
        record.body["parameters"] = {
            key: self._node(parameter, place and f"{place}.parameters.{key}")
            for key, parameter in record.owner.parameters()
        }

    def _relate_module(self, record: CallRecord, site: ModuleSite, scopes: list[CallRecord]) -> None:
        """The parent of a module call. A recomputation starts without the modules around it: it has its first call's."""
        if self._runtime.recomputing() and not scopes:
            record.parent = site.last_parent
        else:
            site.last_parent = record.parent

    def _finish(self, record: CallRecord) -> None:
        self._open.pop(id(record), None)
        self._close_scope(record.name)
        if record.body is not None or record.stack is not None:
            self.recorded += 1
        elif record.parent is UNRELATED:
            return
        self._write(record)

    def _close_scope(self, name: str) -> None:
        if self._selection.scope is not None:
            self._selection.scope.end(name)

    def _leave(self, record: CallRecord) -> None:
        """Take ``record`` and everything left above it (by calls that never ended) off the stack of running modules."""
        scopes = self.thread.scopes
        if record in scopes:
            del scopes[scopes.index(record) :]

    def _await_backward(self, record: CallRecord, result: Any) -> None:
        if self._gradients is not None:
            prepared, record.grads = record.grads, None
            call = BackwardCall(self, record, self._gradients.template(prepared))
            if record.parent not in (None, UNRELATED):
                call.parent = _backward_of(self.thread.scopes, record.parent)
            self._gradients.attach(prepared, result, call)

    def _backward_record(self, call: BackwardCall) -> CallRecord | None:
        """The open record of a backward call; at its first gradient this decides whether it is kept."""
        if self._closed:
            return None
        if call.record is None:
            self._open_backward[id(call)] = call
            call.record = CallRecord(call.name, None)
            call.record.parent = call.parent
            call.kept = self._selection.scope is None or self._selection.scope.begin(call.name)
            if call.kept and self._plan.bodies:
                call.record.body = {}
        return call.record

    def _finish_backward(self, call: BackwardCall) -> None:
        record = call.record
        self._open_backward.pop(id(call), None)
        if record is not None:
            if record.body is not None:
                head = {"input": call.outputs} if self._modes.input else {}
                tail = {"output": call.fill({}, self._node, "")} if self._modes.output else {}
                record.body = {**head, **tail, **record.body}
            self._finish(record)
        call.reset()

    def _keeps_gradients_of(self, site: ModuleSite, name: str) -> bool:
        listed, scope = self._selection.listed, self._selection.scope
        if scope is not None and not scope.begin(name):
            return False
        return listed is None or listed(name) or listed(site.stem) or listed(f"{site.stem}.backward.0")

    def _place(self, name: str) -> str:
        """The name to save tensors under, or nothing when this entry's tensors are not kept."""
        if self._plan.save_all:
            return name
        tensors = self._selection.tensors
        return name if tensors is not None and tensors(name) else ""

    def _node(self, value: Any, place: str) -> Node:
        return self._values.node(value, place)

    def _pass_over(self, name: str) -> None:
        if len(self.passed_over) < 5:
            self.passed_over.append(name)

    def _write(self, record: CallRecord) -> None:
        self._sink.write(record)


def _backward_of(scopes: list[CallRecord], parent: str | None) -> str | None:
    """The name of the backward record of the enclosing module, which is the parent of a backward call inside it."""
    return next((scope.backward for scope in reversed(scopes) if scope.name == parent), None)
