"""The collector of one step sees calls begin and end, applies the selection, and passes finished records on.

It owns the calls that are still open and nothing else; a new step gets a new collector. A method that a tap calls never
raises, so no error of the tool reaches the user's program.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.collectives import Ranks, group_id
from msprobe.core.capture.describe import Node
from msprobe.core.capture.observer import CallSite, Group
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.backward import BackwardCall, BackwardCalls
from msprobe.core.dump.record.call_record import UNRELATED, CallRecord, EarlyRecord, HeaderItem, StackRecord
from msprobe.core.dump.record.error_boundary import never_raises, records
from msprobe.core.dump.record.graph_calls import GraphCalls
from msprobe.core.dump.record.late_reads import MOST_READS, READS
from msprobe.core.dump.record.module_names import NamedModule
from msprobe.core.dump.record.parameter_records import ParameterRecords
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.store.record_walk import ATTRIBUTES

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
_MOST_NUMBERS = 4096
"""How many numbers of these values."""
_MOST_MOVES = 20_000
"""How many calls that only move values a step records: some programs index every element by itself."""
_FRAMES = 4
"""The stack frames of the tool between the begin of a call and ``_note_stack``."""


class Collector:
    """Observer of API calls, module calls and parameter gradients of one step (implements ``Observer``).

    Args:
        recorder: takes the records of the step.
        backend: the framework; its gradient tap observes the backward pass of each recorded call.
        thread, stacks: the session's per-thread state and interned call stacks.
    """

    def __init__(self, recorder: StepRecorder, backend: Backend, thread: ThreadState, stacks: StackTable) -> None:
        self.recorder = recorder
        self.errors = recorder.errors
        self._thread = thread
        self._stacks = stacks
        self._plan = recorder.plan
        self._modes = recorder.modes
        self._selection = recorder.selection
        self._sampled = recorder.selection.sampled
        self.runtime = backend.runtime
        self._read_arguments = backend.read_arguments
        self._made_by_framework = backend.made_by_framework if backend.runtime.rank() is not None else None
        self._gradients = backend.gradients if recorder.modes.backward else None
        self._backward = BackwardCalls(recorder)
        self._declared: set[int] = set()
        self._running_calls: dict[int, CallRecord] = {}
        self._graphs = GraphCalls(recorder)
        self.parameters = ParameterRecords(recorder, backend.modules, thread)
        self._groups: set[str] = set()
        self._optimizers: list[weakref.ref[Any]] = []
        self._reads = self._numbers = self._moves = 0

    # ---- calls of functions ----

    @records
    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord | None:
        """Begin a call of a function; return its record, or None for a call that is not recorded."""
        if self._made_by_framework is not None and self._made_by_framework(site):
            return None
        number = next(site.calls)
        if not site.passes_risk and not self._plan.construct and not self._plan.moves:
            return None
        name = f"{site.stem}{number}.forward"
        if self._sampled is not None and not self._sampled(name):
            return None
        record = CallRecord(name, None)
        if site.differentiable:
            record.backward_name = f"{site.stem}{number}.backward"
        if self._plan.moves and not site.passes_risk:
            record.moved = args, kwargs
            if not self._plan.construct:
                return record  # there is nothing else to note
        self._begin(record, site.passes_risk, (args, kwargs), site.api)
        if site.attributes is not None and record.body is not None and self._modes.input:
            record.body[ATTRIBUTES] = self.recorder.describer.keywords(site.attributes, "")
        return record

    @records
    def end(self, record: CallRecord, result: Any) -> None:
        """End a call of a function that returned ``result``."""
        try:
            if record.body is not None and self._modes.output:
                self._add_output(record, result)
        finally:
            self._finish(record)
        if record.moved is not None:
            arguments, record.moved = record.moved, None
            self._note_move(record.name, record.parent, arguments, result)
        if record.prepared_gradients is not None:
            self._expect_backward(record, result)

    @records
    def value_moved(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Record a call that only moves values, and is no entry of any dump."""
        if self._plan.moves:
            scopes = self._thread.scopes
            name = f"{site.stem}{next(site.calls)}.forward"
            self._note_move(name, scopes[-1].name if scopes else None, (args, kwargs), result)

    @records
    def fail(self, record: CallRecord, error: BaseException) -> None:
        """End a call that has raised: its record has the inputs, and the error beside them."""
        if record.body is not None and not self.runtime.expected(error):
            record.body["error"] = error_text(error)
        self._finish(record)

    @never_raises
    def communicates(self, record: CallRecord, ranks: Ranks, arguments: Arguments) -> None:
        """Note the process group of a call; its members are written with the first call in it."""
        if record.body is None or (members := ranks(arguments)) is None:
            return
        identity = group_id(tuple(members))
        record.body["group_id"] = identity
        if identity not in self._groups:
            self._groups.add(identity)
            self.recorder.sink.write(HeaderItem("process_groups", {"group_id": identity, "ranks": list(members)}))

    # ---- calls of modules ----

    @records
    def module_begin(self, site: NamedModule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord:
        """Begin a call of a module and return its record."""
        number = next(site.calls)
        record = CallRecord(f"{site.stem}.forward.{number}", None)
        record.backward_name = f"{site.stem}.backward.{number}"
        record.owner = site
        self._begin(record, True, (args, kwargs))
        if self._plan.construct:
            self._relate_module(record, site)
        self._thread.scopes.append(record)
        return record

    @records
    def module_end(self, record: CallRecord, result: Any) -> None:
        """End a call of a module that returned ``result``."""
        self.leave(record)
        try:
            if record.body is not None and self._modes.output:
                self._add_output(record, result)
                self._add_parameters(record)
        finally:
            self._finish(record)
        if record.prepared_gradients is not None:
            self._expect_backward(record, result)

    @records
    def module_fail(self, record: CallRecord, error: BaseException) -> None:
        """End a call of a module that has raised."""
        self.leave(record)
        self.fail(record, error)

    @never_raises
    def enter(self, name: str) -> CallRecord:
        """Begin a named part of the step (``optimizer``, ``clip_grad``), the parent of the calls inside it."""
        record = CallRecord(name, None)
        if self._plan.construct:
            record.parent = None
            self.recorder.sink.write(record)
        self._thread.scopes.append(record)
        return record

    @never_raises
    def leave(self, record: CallRecord | None) -> None:
        """Remove ``record`` from the stack of running modules, and what calls that never ended left above it."""
        scopes = self._thread.scopes
        if record is not None and record in scopes:
            del scopes[scopes.index(record) :]

    @records
    def optimizer_step(self, optimizer: Any, groups: Callable[[Any], Sequence[Group]]) -> None:
        """Note where an optimizer step is called, and the settings that it begins with; its parameters are named at its
        first step."""
        with self._thread.quiet():
            number, is_new = self._number_of(optimizer), False
            if number is None:
                self._optimizers.append(weakref.ref(optimizer))
                number, is_new = self._number_of(optimizer), True
            item: dict[str, Any] = {"optimizer": number}
            if is_new:
                item["class"] = type(optimizer).__name__
            if self._plan.stacks:
                item["stack"] = self._stacks.text(self._stacks.capture())
            item["groups"] = written = []
            held: set[str | None] = set()
            for settings, names in groups(optimizer):
                names = list(names)
                held.update(names)
                written.append({key: self._setting(value) for key, value in settings.items()})
                if is_new:
                    written[-1]["parameters"] = names
            self.recorder.sink.write(HeaderItem("optimizers", item))
            if is_new:
                self.parameters.optimizer_begins(
                    item["optimizer"], {name for group in written for name in group["parameters"]}
                )
            self.parameters.update_begins(item["optimizer"], held)

    @records
    def training_call(self, kind: str, facts: Callable[[], Mapping[str, Any] | None], optimizer: Any) -> None:
        """Note a call that moves the training on, where the plan asks for these and ``facts()`` is not None."""
        if not self._plan.training:
            return
        with self._thread.quiet():
            said = facts()
        if said is not None:
            more: dict[str, Any] = {} if optimizer is None else {"optimizer": self._number_of(optimizer)}
            if self._plan.stacks:
                more["stack"] = self._stacks.text(self._stacks.capture())
            more.update((key, self._setting(value)) for key, value in said.items())
            self.parameters.training_call(kind, more)

    @never_raises
    def gradient_call(self, kind: str) -> None:
        """Note where the program calls ``backward`` or ``zero_grad``."""
        self.parameters.training_call(kind, {})
        if self._plan.stacks:
            item = {"call": kind, "stack": self._stacks.text(self._stacks.capture())}
            self.recorder.sink.write(HeaderItem("gradient_calls", item))

    @records
    def value_read(self, kind: str, value: Any, numbers: Callable[[], list[float]] | None) -> None:
        """Record a value that the program reads outside of modules and optimizers, the first ones of a step."""
        if self._thread.scopes or not self._plan.bodies or self.recorder.closed or self._reads >= MOST_READS:
            return
        self._reads += 1
        with self._thread.quiet():
            item: dict[str, Any] = {"call": kind, "value": self.recorder.describer.node(value, "")}
            found = [] if numbers is None or self._numbers >= _MOST_NUMBERS else numbers()
            if found and all(map(math.isfinite, found)):
                item["numbers"] = found
                self._numbers += len(found)
            if self._plan.stacks:
                item["stack"] = self._stacks.text(self._stacks.capture())
            self.recorder.sink.write(HeaderItem(READS, item))

    @records
    def parameter_gradient(self, site: NamedModule, key: str, gradient: Any) -> None:
        """Record the gradient that one backward pass brings to a module's parameter."""
        recorder = self.recorder
        if recorder.closed or not self._modes.parameters_grad or not self._plan.bodies:
            return
        name = site.gradient_name(key)
        if not recorder.samples(name):
            return
        if not recorder.in_scope(name) or not recorder.lists_gradients_of(site.stem, name):
            recorder.skip(name)
            return
        prefix = recorder.save_name(name)
        recorder.write_call(CallRecord(name, {key: [recorder.describer.node(gradient, prefix and f"{prefix}.{key}")]}))

    # ---- calls inside compiled graphs ----

    def graph_run(self, parts: Sequence[str]) -> GraphCalls:
        """Return the receiver of what a graph reports; the graph is about to run.

        Args:
            parts: the names of the parts that the model itself calls.
        """
        scopes = self._thread.scopes
        self._graphs.run(scopes[-1] if scopes else None, parts)
        return self._graphs

    def graphs(self) -> GraphCalls:
        """Return the receiver of what the graphs of this step report."""
        return self._graphs

    # ---- the step as a whole ----

    def conclusion(self) -> str | None:
        """Return what is to be said of the whole step; None where nothing is."""
        return self.recorder.conclusion()

    def tick(self) -> None:
        """Write the inputs of calls that have been open since the last tick of the flusher, in its thread.

        So a process that dies inside a long call leaves its inputs.
        """
        for record in list(self._running_calls.values()):
            if record.ticks == 1:
                self.recorder.sink.write(EarlyRecord(record))
            record.ticks += 1

    def release(self) -> None:
        """Do nothing in a forked child: the collector holds no file."""

    def end_step(self) -> None:
        """End the step: write what is still incomplete and take nothing more."""
        self._backward.end_step()
        self.finish_open()
        self.recorder.end_step()

    def finish_open(self) -> None:
        """Write what is still incomplete."""
        self._backward.finish_open()
        self._graphs.flush()
        for record in list(self._running_calls.values()):
            self._finish(record)

    # ---- inside ----

    def _number_of(self, optimizer: Any) -> int | None:
        """Return the number of an optimizer that has stepped; None before."""
        return next((number for number, known in enumerate(self._optimizers) if known() is optimizer), None)

    def _begin(self, record: CallRecord, wanted: bool, arguments: Arguments, api: str = "") -> None:
        keep, keep_backward = wanted, wanted and self._gradients is not None
        if wanted and self._selection.filtered:
            listed, listed_backward = self._select(record)
            keep, keep_backward = listed, keep_backward and listed_backward
        if record.owner is not None and not self.recorder.samples(record.name):
            keep = keep_backward = False
        scopes = self._thread.scopes
        record.recompute = self.runtime.recomputing()
        if self._plan.construct:
            record.parent = scopes[-1].name if scopes else self._parent_in_backward()
        if keep and self._modes.forward and self._plan.bodies:
            read = self._read_arguments if api and arguments[1] else None
            self._open_forward(record, arguments if read is None else read(api, *arguments))
        if keep and self._plan.stacks:
            self._note_stack(record)
        if record.recompute and keep_backward:
            keep_backward = not self.runtime.repeats_without_gradients()
        if keep_backward and self._gradients is not None and record.backward_name is not None:
            try:
                record.prepared_gradients = self._gradients.prepare(*arguments)
            except Exception as error:  # noqa: BLE001  (an odd argument costs the gradients, not the call)
                let_through(error)
                self.errors.note(f"the gradients of {record.name}", error)

    def _open_forward(self, record: CallRecord, arguments: Arguments) -> None:
        body: dict[str, Any] = {}
        record.body = body
        if self._modes.input:
            describer, prefix = self.recorder.describer, self.recorder.save_name(record.name)
            positional, keywords = arguments
            body["input_args"] = describer.sequence(positional, prefix and f"{prefix}.input")
            body["input_kwargs"] = describer.keywords(keywords, prefix and f"{prefix}.kwargs") if keywords else {}
        if record.recompute:
            body["is_recompute"] = True
        self._note_modes(record.owner, body)
        self._running_calls[id(record)] = record

    def _note_modes(self, module: NamedModule | None, body: dict[str, Any]) -> None:
        """Note the modes in which a call runs; of a function only an autograd mode that is not the usual one."""
        autograd = self.runtime.autograd()
        if module is not None:
            training = module.training()
            if training is not None:
                body["training"] = training
            if autograd is not None:
                body["autograd"] = autograd
        elif autograd != "grad" and autograd is not None:
            body["autograd"] = autograd
        autocast = self.runtime.autocast()
        if autocast is not None:
            body["autocast"] = autocast

    def _note_move(self, name: str, parent: str | None, arguments: Arguments, result: Any) -> None:
        """Record what a call made of which tensors, and where the program calls it."""
        recorder = self.recorder
        if recorder.closed or self._moves >= _MOST_MOVES or self._selection.filtered or self.runtime.recomputing():
            return
        with self._thread.quiet():
            positional, keywords = arguments
            if any(result is value for value in positional):
                return  # it was so already
            self._moves += 1
            item: dict[str, Any] = {
                "call": name,
                "from": recorder.places((*positional, *keywords.values())),
                "to": recorder.places(result),
                "after": recorder.record_count,
                "line": self._stacks.innermost(),
            }
            if parent is not None and parent != UNRELATED:
                item["parent"] = parent
            dtypes = [getattr(value, "dtype", None) for value in (*positional[:1], result)]
            if None not in dtypes and dtypes[0] != dtypes[-1]:
                item["cast"] = list(map(str, dtypes))
            recorder.sink.write(HeaderItem("moves", item))

    def _setting(self, value: Any) -> Node:
        """Return one setting of an optimizer: numbers and texts as they are, a tensor as its node."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (tuple, list)):
            return [self._setting(part) for part in value]
        return self.recorder.describer.node(value, "")

    def _note_stack(self, record: CallRecord) -> None:
        """Note the stack of the forward call, whichever phase is recorded: users look for the forward."""
        record.stack = self._stacks.capture(_FRAMES)
        if record.stack not in self._declared:
            self._declared.add(record.stack)
            self.recorder.sink.write(StackRecord(record.stack, self._stacks.text(record.stack)))

    def _select(self, record: CallRecord) -> tuple[bool, bool]:
        """Return whether the forward and the backward of a call are selected, by list and scope.

        The scope decides about the backward when that begins.
        """
        selection, scopes = self._selection, self._thread.scopes
        keep = keep_backward = True
        if selection.listed is not None:
            outer = scopes[-1].brings if scopes and selection.inherits else (False, False)
            keep = outer[0] or selection.listed(record.name)
            keep_backward = outer[1] or selection.listed(record.backward_name or "")
            record.brings = (keep, keep_backward)
        keep = self.recorder.in_scope(record.name) and keep
        if not keep:
            self.recorder.skip(record.name)
        return keep, keep_backward

    def _add_output(self, record: CallRecord, result: Any) -> None:
        describer, prefix = self.recorder.describer, self.recorder.save_name(record.name)
        assert record.body is not None
        outputs = tuple(tuple.__iter__(result)) if isinstance(result, tuple) else (result,)
        record.body["output"] = describer.sequence(outputs, prefix and f"{prefix}.output")

    def _add_parameters(self, record: CallRecord) -> None:
        describer, prefix = self.recorder.describer, self.recorder.save_name(record.name)
        assert record.body is not None
        record.body["parameters"] = {
            key: describer.node(parameter, prefix and f"{prefix}.parameters.{key}")
            for key, parameter in record.owner.parameters()
        }

    def _relate_module(self, record: CallRecord, site: NamedModule) -> None:
        """Set the parent of a module call.

        A recomputation starts without the modules around it: its parent is that of the first call.
        """
        if record.recompute and not self._thread.scopes:
            record.parent = site.last_parent
        else:
            site.last_parent = record.parent

    def _parent_in_backward(self) -> str | None:
        """Return the module whose backward runs, for a call that a hand-written backward makes; else None."""
        return self._backward.running_module() if self.runtime.in_written_backward() else None

    def _finish(self, record: CallRecord) -> None:
        self._running_calls.pop(id(record), None)
        self.recorder.write_call(record)

    def _expect_backward(self, record: CallRecord, result: Any) -> None:
        if self._gradients is None or record.backward_name is None:
            return
        prepared, record.prepared_gradients = record.prepared_gradients, None
        parent: str | None = UNRELATED
        if self._plan.construct:
            scopes = self._thread.scopes
            parent = next((scope.backward_name for scope in reversed(scopes) if scope.name == record.parent), None)
        call = BackwardCall(self._backward, record.backward_name, parent, self._gradients.template(prepared))
        call.is_module = record.owner is not None
        self._gradients.attach(prepared, result, call, report_early=call.is_module)
