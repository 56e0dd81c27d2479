"""Tasks that run calls again while the program runs: each selected call is checked by a ``CallChecker``.

    api_begin ──► the wrapper finds ``thread.live`` ──► checker.begin ──► the function ──► checker.end ──► end

The program gets what its function returned, or what the checker puts in its place. A call with a finding is recorded
with the arguments that it was given, so that it can be run again from the dump. No error of a checker reaches the
program: the call is not checked then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from msprobe.core.backend.protocols import Backend
from msprobe.core.backend.replaying import Execution, HeldTensor, PreparedCall
from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import copy_signature
from msprobe.core.dump.record.call_record import CallRecord
from msprobe.core.dump.record.collector import Arguments, Collector
from msprobe.core.dump.record.error_boundary import never_raises, records
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.log import logger


@dataclass(frozen=True, slots=True)
class LiveCall:
    """A call that a program makes.

    Attributes:
        name: that of its entry, ``Functional.linear.0.forward``.
        prefix, api: the function, ``Functional`` and ``linear``.
        function: the function itself.
        args, kwargs: what it is given.
        stack: the frames of the program, innermost first.
    """

    name: str
    prefix: str
    api: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    stack: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a checker says of one call.

    Attributes:
        finding: the fault, in words; "" without one.
        given: the call with its arguments as they were given, which are recorded; None to record nothing.
    """

    finding: str = ""
    given: PreparedCall | None = None


class CallChecker(Protocol):
    """Checks calls of one session. An exception of a method means that the call is not checked.

    Attributes:
        backward: whether calls are checked in their backward pass.
    """

    backward: bool

    def selects(self, step: int) -> bool:
        """Return whether calls of a step are checked."""
        ...

    def begin_step(self, folder: Callable[[], Path], number: int, rank: int | None) -> None:
        """Begin a step whose results go into ``folder()``."""
        ...

    def begin(self, call: LiveCall) -> Any:
        """Look at the arguments before the function runs; return what ``end`` needs, None for a call not checked."""
        ...

    def replaced(self, call: LiveCall) -> tuple[bool, Any]:
        """Return whether the program is to get another result than that of the function, and that result."""
        ...

    def end(self, call: LiveCall, begun: Any, result: Any) -> Checked:
        """Check what the function has returned."""
        ...

    def end_backward(self, call: LiveCall, begun: Any, gradients: Mapping[int, HeldTensor]) -> Checked:
        """Check a backward pass, by the gradients of the differentiable results by their positions."""
        ...

    def wants(self, name: str, signature: Any) -> bool:
        """Return whether an operator is checked."""
        ...

    def check(self, call: PreparedCall, execution: Execution) -> Checked:
        """Check an operator that has run."""
        ...

    def conclusion(self) -> str:
        """Return the message for the end of a step."""
        ...

    def close(self) -> None:
        """Take nothing more: the session is over."""
        ...


class CheckCollector(Collector):
    """Have the selected calls of functions checked, and record those with a finding.

    Args:
        recorder, backend, thread, stacks: as those of ``Collector``.
        checker: checks the calls.
    """

    def __init__(
        self,
        recorder: StepRecorder,
        backend: Backend,
        thread: ThreadState,
        stacks: StackTable,
        checker: CallChecker,
    ) -> None:
        super().__init__(recorder, backend, thread, stacks)
        if not checker.backward:
            self._gradients = None
        assert backend.live is not None
        self.live = backend.live
        self.checker = checker
        self._operators: Counter[str] = Counter()
        self._checks: dict[int, LiveCheck] = {}  # of calls whose backward pass is checked, by the id of the record

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallRecord | None:
        self._thread.live = None
        record: CallRecord | None = super().api_begin(site, args, kwargs)
        if self._thread.live is not None:
            self._thread.live.site = site
        return record

    def end(self, record: CallRecord, result: Any) -> None:
        super().end(record, result)
        self._checks.pop(id(record), None)

    def _open_forward(self, record: CallRecord, arguments: Arguments) -> None:
        self._thread.live = check = LiveCheck(self, record)
        if self._gradients is not None:
            self._checks[id(record)] = check

    def _finish(self, record: CallRecord) -> None:
        self._thread.live = None
        if record.body is None:
            record.stack = None
        super()._finish(record)

    def _expect_backward(self, record: CallRecord, result: Any) -> None:
        prepared, record.prepared_gradients = record.prepared_gradients, None
        check = self._checks.get(id(record))
        if check is not None and check.begun is not None and self._gradients is not None and prepared is not None:
            self._gradients.attach(prepared, result, BackwardCheck(check), report_early=True)

    def frames(self, record: CallRecord) -> list[str]:
        """Return the call stack of a call."""
        return [] if record.stack is None else self._stacks.text(record.stack)

    def record_given(self, record: CallRecord, given: PreparedCall) -> None:
        """Open the entry of a call with the arguments that it was given."""
        super()._open_forward(record, self.live.arguments(given))

    def conclusion(self) -> str:
        return self.checker.conclusion()

    def wants(self, name: str, signature: Any) -> bool:
        """Return whether an operator is checked (``OperatorHandler``)."""
        return not self.recorder.closed and self.checker.wants(name, signature)

    @records
    def check(self, call: PreparedCall, execution: Execution) -> None:
        """Have an operator checked that has run, and record a wrong one (``OperatorHandler``)."""
        checked = self.checker.check(call, execution)
        if not checked.finding:
            return
        stem = f"{call.prefix}.{call.api.partition('.')[0]}"
        record = CallRecord(f"{stem}.{self._operators[stem]}.forward", None)
        self._operators[stem] += 1
        self.record_given(record, call)
        returned = replace(call, args=[each for each in execution.outputs if isinstance(each, HeldTensor)], kwargs={})
        self._add_output(record, self.live.arguments(returned)[0])
        super()._finish(record)


class LiveCheck:
    """The check of one call that begins."""

    __slots__ = ("_collector", "_record", "begun", "call", "errors", "runtime", "site")

    def __init__(self, collector: CheckCollector, record: CallRecord) -> None:
        self.errors, self.runtime = collector.errors, collector.runtime
        self._collector, self._record = collector, record
        self.site: CallSite | None = None
        self.begun: Any = None
        self.call: LiveCall | None = None

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call ``function`` for the program, check it, and return what the program is to get."""
        self._begin(function, args, kwargs)
        replaced, result = (self._replaced() if self.begun is not None else None) or (False, None)
        if not replaced:
            result = function(*args, **kwargs)
        if self.begun is not None:
            self._end(result)
        return result

    @records
    def _begin(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert self.site is not None
        stack = self._collector.frames(self._record)
        self.call = LiveCall(self._record.name, self.site.prefix, self.site.api, function, args, kwargs, stack)
        self.begun = self._collector.checker.begin(self.call)

    @records
    def _replaced(self) -> tuple[bool, Any]:
        assert self.call is not None
        return self._collector.checker.replaced(self.call)

    @records
    def _end(self, result: Any) -> None:
        assert self.call is not None
        checked = self._collector.checker.end(self.call, self.begun, result)
        if checked.finding and checked.given is not None:
            self._collector.record_given(self._record, checked.given)
        if checked.finding:
            logger.warning("%s: %s", self._record.name, checked.finding)

    def hold(self, gradient: Any) -> HeldTensor:
        """Return a copy of a gradient."""
        return self._collector.live.held(gradient)

    @records
    def end_backward(self, gradients: Mapping[int, HeldTensor]) -> None:
        """Check the backward pass."""
        assert self.call is not None
        checked = self._collector.checker.end_backward(self.call, self.begun, gradients)
        if checked.finding:
            logger.warning("%s: %s", self._record.backward_name, checked.finding)


class BackwardCheck:
    """Hold the gradients of the results of one call until its backward pass is over (a ``GradientReceiver``)."""

    __slots__ = ("_check", "_gradients", "errors")

    def __init__(self, check: LiveCheck) -> None:
        self._check, self.errors = check, check.errors
        self._gradients: dict[int, HeldTensor] = {}

    def expect(self, outputs: int) -> None:
        """Prepare nothing."""

    def whole(self, grad_outputs: Any, grad_inputs: Any) -> None:
        """Check the backward pass."""
        for position, gradient in enumerate(grad_outputs):
            self.grad_output(position, gradient)
        self.grad_inputs(grad_inputs)

    @never_raises
    def grad_output(self, position: int, gradient: Any) -> None:
        """Keep the gradient of a result."""
        if gradient is not None:
            self._gradients[position] = self._check.hold(gradient)

    def grad_input(self, slot: int, gradient: Any) -> None:
        """Do nothing: gradients of arguments are computed again."""

    def grad_inputs(self, gradients: Any) -> None:
        """Check the backward pass."""
        kept, self._gradients = self._gradients, {}
        self._check.end_backward(kept)


Inside = Callable[[CallSite, Callable[..., Any]], Callable[..., Any]]


def checked_inside(inside: Inside, thread: ThreadState) -> Inside:
    """Return what makes, of an original function, what runs inside an observed call: the function of ``inside``, and
    its check where there is one."""

    def make(site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        function = inside(site, original)

        def call(*args: Any, **kwargs: Any) -> Any:
            live, thread.live = thread.live, None
            if live is None or live.site is not site:
                return function(*args, **kwargs)
            return live.run(function, args, kwargs)

        copy_signature(call, original)
        return call

    return make
