"""The collector of one step: it sees calls begin and end, asks the selection, and hands finished records on.

It owns the calls that are still open and nothing else; a new step gets a new collector. Every method that a tap calls
is shielded, so nothing that goes wrong here reaches the user's program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msprobe.core.backend.model import Backend
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.stack import StackTable
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.backward import BackwardCall, BackwardCalls
from msprobe.core.dump.graph_calls import GraphCalls
from msprobe.core.dump.modules import ModuleSite
from msprobe.core.dump.record import UNRELATED, CallRecord, EarlyRecord, StackRecord
from msprobe.core.dump.recording import Recording
from msprobe.core.dump.shield import shielded
from msprobe.core.errors import error_text

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
_FRAMES = 4
"""Frames from the shielded begin of a call down to ``_note_stack``."""


class Collector:
    """Observer of API calls, module calls and parameter gradients of one step (implements ``Observer``).

    Args:
        recording: where the records of the step go.
        backend: the framework; its gradient tap observes the backward pass of each recorded call.
        thread, stacks: the session's per-thread state and interned call stacks.
    """

    def __init__(self, recording: Recording, backend: Backend, thread: ThreadState, stacks: StackTable) -> None:
        self.recording = recording
        self.errors = recording.errors
        self._thread = thread
        self._stacks = stacks
        self._plan = recording.plan
        self._modes = recording.modes
        self._selection = recording.selection
        self._runtime = backend.runtime
        self._gradients = backend.gradients if recording.modes.backward else None
        self._backward = BackwardCalls(recording)
        self._births = recording.births
        self._declared: set[int] = set()
        self._open: dict[int, CallRecord] = {}
        self._graphs = GraphCalls(recording)

    # ---- calls of functions ----

    @shielded
    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord | None:
        number = next(site.calls)
        if not site.recorded and not self._plan.construct:
            return None
        record = CallRecord(f"{site.stem}{number}.forward", None)
        if site.differentiable:
            record.backward = f"{site.stem}{number}.backward"
        self._begin(record, site.recorded, (args, kwargs))
        record.creates = site.creates and self._births is not None
        return record

    @shielded
    def end(self, record: CallRecord, result: Any) -> None:
        try:
            if record.body is not None and self._modes.output:
                if record.creates and self._births is not None:
                    self._births.made(result)
                self._add_output(record, result)
        finally:
            self._finish(record)
        if record.grads is not None:
            self._await_backward(record, result)

    @shielded
    def fail(self, record: CallRecord, error: BaseException) -> None:
        """A call has raised: its inputs stay, with the error beside them."""
        if record.body is not None and not self._runtime.expected(error):
            record.body["error"] = error_text(error)
        self._finish(record)

    # ---- calls of modules ----

    @shielded
    def module_begin(self, site: ModuleSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord:
        number = next(site.calls)
        record = CallRecord(f"{site.stem}.forward.{number}", None)
        record.backward = f"{site.stem}.backward.{number}"
        record.owner = site
        try:
            self._begin(record, True, (args, kwargs))
            if self._plan.construct:
                self._relate_module(record, site)
        finally:
            self._thread.scopes.append(record)
        return record

    @shielded
    def module_end(self, record: CallRecord, result: Any) -> None:
        self.leave(record)
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
        self.leave(record)
        self.fail(record, error)

    @shielded
    def enter(self, name: str) -> CallRecord:
        """A named part of the step (``optimizer``, ``clip_grad``) that is the parent of the calls inside it."""
        record = CallRecord(name, None)
        if self._plan.construct:
            record.parent = None
            self.recording.sink.write(record)
        self._thread.scopes.append(record)
        return record

    @shielded
    def leave(self, record: CallRecord | None) -> None:
        """Take ``record`` and everything left above it (by calls that never ended) off the stack of running modules."""
        scopes = self._thread.scopes
        if record is not None and record in scopes:
            del scopes[scopes.index(record) :]

    @shielded
    def parameter_gradient(self, site: ModuleSite, key: str, gradient: Any) -> None:
        """The gradient that one backward pass brings to a module's parameter."""
        recording = self.recording
        if recording.closed or not self._modes.parameters_grad or not self._plan.bodies:
            return
        name = site.gradient_name(key)
        if not recording.in_scope(name) or not recording.lists_gradients_of(site.stem, name):
            recording.pass_over(name)
            return
        place = recording.place(name)
        recording.finish(CallRecord(name, {key: [recording.values.node(gradient, place and f"{place}.{key}")]}))

    # ---- calls inside compiled graphs ----

    def graph_run(self, parts: Sequence[str]) -> GraphCalls:
        """The program is about to run a graph, which tells what it does; ``parts`` are what the model itself calls."""
        scopes = self._thread.scopes
        self._graphs.run(scopes[-1] if scopes else None, parts)
        return self._graphs

    def graphs(self) -> GraphCalls:
        """The graphs of this step."""
        return self._graphs

    # ---- the step as a whole ----

    def early(self) -> Iterable[EarlyRecord]:
        """Calls that have been open since the last time this was asked: the inputs of long calls go to disk early."""
        found = []
        for record in list(self._open.values()):
            if record.beats == 1:
                found.append(EarlyRecord(record))
            record.beats += 1
        return found

    def finish(self) -> None:
        """The step is over: write what is still incomplete and take nothing more."""
        self._backward.finish()
        self._graphs.flush()
        for record in list(self._open.values()):
            self._finish(record)
        self.recording.end()

    # ---- inside ----

    def _begin(self, record: CallRecord, recorded: bool, arguments: Arguments) -> None:
        keep, keep_backward = recorded, recorded and self._gradients is not None
        if recorded and self._selection.filtered:
            listed, listed_backward = self._select(record)
            keep, keep_backward = listed, keep_backward and listed_backward
        scopes = self._thread.scopes
        record.recompute = self._runtime.recomputing()
        if self._plan.construct:
            record.parent = scopes[-1].name if scopes else self._parent_in_backward()
        if keep and self._modes.forward and self._plan.bodies:
            self._open_forward(record, arguments)
        if keep and self._plan.stacks:
            self._note_stack(record)
        if keep_backward and self._gradients is not None and record.backward is not None:
            try:
                record.grads = self._gradients.prepare(*arguments)
            except Exception as error:  # noqa: BLE001  (an odd argument costs the gradients, not the call)
                self.errors.note(f"the gradients of {record.name}", error)

    def _open_forward(self, record: CallRecord, arguments: Arguments) -> None:
        body: dict[str, Any] = {}
        record.body = body
        if self._modes.input:
            values, place = self.recording.values, self.recording.place(record.name)
            body["input_args"] = values.sequence(arguments[0], place and f"{place}.input")
            body["input_kwargs"] = values.keywords(arguments[1], place and f"{place}.kwargs") if arguments[1] else {}
        if record.recompute:
            body["is_recompute"] = True
        self._open[id(record)] = record

    def _note_stack(self, record: CallRecord) -> None:
        """The stack is that of the forward call, whatever phase is recorded: it is where the user looks."""
        record.stack = self._stacks.capture(_FRAMES)
        if record.stack not in self._declared:
            self._declared.add(record.stack)
            self.recording.sink.write(StackRecord(record.stack, self._stacks.text(record.stack)))

    def _select(self, record: CallRecord) -> tuple[bool, bool]:
        """Apply list and scope: are the forward and the backward of a call wanted? Scope decides on the
        latter later.
        """
        selection, scopes = self._selection, self._thread.scopes
        keep = keep_backward = True
        if selection.listed is not None:
            above = scopes[-1].brings if scopes and selection.inherits else (False, False)
            keep = above[0] or selection.listed(record.name)
            keep_backward = above[1] or selection.listed(record.backward or "")
            record.brings = (keep, keep_backward)
        keep = self.recording.in_scope(record.name) and keep
        if not keep:
            self.recording.pass_over(record.name)
        return keep, keep_backward

    def _add_output(self, record: CallRecord, result: Any) -> None:
        values, place = self.recording.values, self.recording.place(record.name)
        assert record.body is not None
        spread = tuple(tuple.__iter__(result)) if isinstance(result, tuple) else (result,)
        record.body["output"] = values.sequence(spread, place and f"{place}.output")

    def _add_parameters(self, record: CallRecord) -> None:
        values, place = self.recording.values, self.recording.place(record.name)
        assert record.body is not None
        record.body["parameters"] = {
            key: values.node(parameter, place and f"{place}.parameters.{key}")
            for key, parameter in record.owner.parameters()
        }

    def _relate_module(self, record: CallRecord, site: ModuleSite) -> None:
        """The parent of a module call.

        A recomputation starts without the modules around it: it has its first call's.
        """
        if record.recompute and not self._thread.scopes:
            record.parent = site.last_parent
        else:
            site.last_parent = record.parent

    def _parent_in_backward(self) -> str | None:
        """What a hand-written backward calls runs inside the backward of a module."""
        return self._backward.running_module() if self._runtime.in_written_backward() else None

    def _finish(self, record: CallRecord) -> None:
        self._open.pop(id(record), None)
        self.recording.finish(record)

    def _await_backward(self, record: CallRecord, result: Any) -> None:
        if self._gradients is None or record.backward is None:
            return
        prepared, record.grads = record.grads, None
        parent: str | None = UNRELATED
        if self._plan.construct:
            scopes = self._thread.scopes
            parent = next((scope.backward for scope in reversed(scopes) if scope.name == record.parent), None)
        call = BackwardCall(self._backward, record.backward, parent, self._gradients.template(prepared))
        call.is_module = record.owner is not None
        call.creates = record.creates
        self._gradients.attach(prepared, result, call, report_early=call.is_module)
