"""Calls that run inside compiled code: prepared while a graph is traced, reported while it runs.

There is one table for the process (``CALLS``), not one for each session, because compiled code outlives the session in
which it was compiled. It reports to a ``Target``, which the attached module tap sets. A call has a *ticket*, a number
that it gets when it begins, by which its end and its gradients are assigned to it. A traced call has a *key*, by which
the operators in the graph look up its shape (``StagedCall``).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.value_transport import NO_VALUES, Packed, pack
from msprobe.core.backend.protocols import GradientTap, Template
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.log import first_time, logger

BeginFunction = Callable[[Any, Any, Any], Callable[[Any], None] | None]
"""Called with the observer, arguments and keyword arguments of a call of a function that runs inside compiled code.

It returns what ends the call with its result, or None for a call that is not recorded.
"""
_RECOMPUTATION_MARKS = ("recompute", "ac_graph_id")


class _Beginning(threading.local):
    """Whether a call inside compiled code begins in this thread."""

    now = False


class _OpenFunction(NamedTuple):
    """A function that runs inside compiled code: its thread, and the context in which what computes it is not recorded
    again."""

    thread: int
    quiet: AbstractContextManager[None]


class CompiledCalls:
    """All calls of the process that run inside compiled code; they are reported to the session that is attached.

    Attributes:
        beginning: whether such a call begins in this thread.
        functions: what begins calls of the functions that are recorded now, by number.
        differentiable: the numbers of those whose gradients are recorded too.
    """

    def __init__(self) -> None:
        self.errors = ErrorLog(None)
        self.target: Target | None = None
        self.modules: dict[int, weakref.ref[nn.Module]] = {}
        self.functions: dict[int, BeginFunction] = {}
        self.differentiable: set[int] = set()
        self.receivers: dict[int, Any] = {}
        self._function_numbers: dict[str, int] = {}
        self._open: dict[int, Callable[[Any], None]] = {}
        self._open_functions: dict[int, _OpenFunction] = {}
        self._staged: dict[int, StagedCall] = {}
        self._tracing = threading.local()
        self.beginning = _Beginning()
        self._counter: Iterator[int] = itertools.count(1)

    def register(self, module: nn.Module) -> None:
        """Give ``module`` a number by which compiled code names it; a second call does nothing."""
        while _dead:
            dead = _dead.pop()
            self.modules.pop(dead.number, None)
            if module_numbers.get(dead.identity) == dead.number:
                del module_numbers[dead.identity]
        if id(module) not in module_numbers:
            number = next(self._counter)
            self.modules[number] = _ModuleReference(module, number)
            module_numbers[id(module)] = number

    def function_number(self, name: str) -> int:
        """Return the number by which compiled code names a function; it is the same as long as the process lives."""
        if name not in self._function_numbers:
            self._function_numbers[name] = next(self._counter)
        return self._function_numbers[name]

    def reset(self) -> None:
        """Drop the calls of the step before that are not over."""
        self.receivers.clear()
        self._open.clear()
        for call in list(self._open_functions.values()):  # their code has raised, or runs in another thread
            if call.thread == threading.get_ident():
                call.quiet.__exit__(None, None, None)
        self._open_functions.clear()
        self._tracing.last = (None, None)

    # ---- while a graph is traced ----

    @never_raises
    def stage_enter(self, number: int, args: Any, kwargs: Any) -> torch.Tensor | None:
        """Add the operator that begins a call to the graph, and return its ticket."""
        target = self.target
        if target is None:
            return None
        key = next(self._counter)
        with target.quiet(), _run_once() as recomputed:
            packed = pack((args, kwargs))
            has_gradients = number in self.modules or number in self.differentiable
            prepared = target.gradients.prepare(args, kwargs) if has_gradients else None
            template = ([], {}) if prepared is None else target.gradients.template(prepared)
            self._staged[key] = StagedCall(number, packed, prepared, template)
            ticket: torch.Tensor = torch.ops.msprobe.enter(packed.tensors + self._after(), packed.numbers, key)
            self._is_last(ticket)
        if recomputed:
            self._tell_of_recomputation(number)
        self._stack().append(key)
        return ticket

    @never_raises
    def stage_leave(self, number: int, ticket: torch.Tensor, result: Any) -> None:
        """Add the operator that ends a call to the graph, and hooks for its gradients."""
        target, stack = self.target, self._stack()
        while stack and self._staged[stack[-1]].number != number:
            stack.pop()  # entered by a trace that was abandoned
        if target is None or not stack:
            return
        key = stack.pop()
        staged = self._staged[key]
        with target.quiet(), _run_once():
            packed = pack(result)
            staged.result, prepared, staged.prepared = packed, staged.prepared, None
            self._is_last(torch.ops.msprobe.leave(packed.tensors + self._after(), packed.numbers, ticket, key))
            if prepared is not None:
                target.gradients.attach(prepared, result, _OperatorEmitter(staged, ticket, key), report_early=True)
        packed.clear()
        staged.arguments.clear()

    def _after(self) -> list[torch.Tensor]:
        """Return the result of the operator before in this graph, as one value more of the next: inductor keeps
        operators with an effect in the order of their data alone."""
        before, result = getattr(self._tracing, "last", (None, None))
        return [result] if result is not None and before is _tracer() else []

    def _is_last(self, result: torch.Tensor) -> None:
        tracer = _tracer()
        self._tracing.last = (tracer, result) if tracer is not None else (None, None)

    def _tell_of_recomputation(self, number: int) -> None:
        module, target = self.modules[number]() if number in self.modules else None, self.target
        site = None if module is None or target is None else target.site(module)
        if site is not None and first_time("recomputed in compiled code"):
            logger.info(
                "calls that compiled code computes again in the backward pass (activation checkpointing) are recorded "
                "once, when they are first computed; the first of them is %s",
                site.stem,
            )

    # ---- while the code runs ----

    @contextlib.contextmanager
    def _begins(self) -> Iterator[None]:
        self.beginning.now = True
        try:
            yield
        finally:
            self.beginning.now = False

    @never_raises
    def begin(self, number: int, args: Any, kwargs: Any, staged: StagedCall | None = None) -> int:
        """Begin a call and return its ticket, 0 for one that is not recorded."""
        target = self.target
        observer = None if target is None else target.current.observer
        if target is None or observer is None:
            return 0
        ticket = next(self._counter)
        if number in self.modules:
            finish = self._begin_module(number, (observer, args, kwargs), staged, ticket)
        else:
            finish = self._begin_function(number, (observer, args, kwargs), staged, ticket)
        if finish is None:
            return 0
        self._open[ticket] = finish
        return ticket

    def _begin_function(
        self, number: int, arguments: tuple[Any, Any, Any], staged: StagedCall | None, ticket: int
    ) -> Callable[[Any], None] | None:
        """Begin the call of a function, and return what ends it; None for one that is not recorded."""
        begin, thread, target = self.functions.get(number), threading.get_ident(), self.target
        if begin is None or target is None or self._runs_function(thread):
            return None  # what an observed function calls is part of it
        with target.quiet(), target.gradients.with_call(self._handed(staged, ticket)), self._begins():
            finish = begin(*arguments)
        if finish is not None:
            self._open_functions[ticket] = call = _OpenFunction(thread, target.quiet())
            call.quiet.__enter__()
        return finish

    def _runs_function(self, thread: int) -> bool:
        return any(call.thread == thread for call in list(self._open_functions.values()))

    def _begin_module(
        self, number: int, arguments: tuple[Any, Any, Any], staged: StagedCall | None, ticket: int
    ) -> Callable[[Any], None] | None:
        """Begin the call of a module, and return what ends it; None for one that is not recorded."""
        target = self.target
        module = self.modules[number]() if number in self.modules else None
        site = None if target is None or module is None else target.site(module)
        if target is None or site is None:
            return None
        observer, *given = arguments
        with target.quiet(), target.gradients.with_call(self._handed(staged, ticket)), self._begins():
            record = observer.module_begin(site, *given)
        return None if record is None else functools.partial(observer.module_end, record)

    def _handed(self, staged: StagedCall | None, ticket: int) -> HandedCall | None:
        return None if staged is None or staged.outputs is None else HandedCall(self, staged, ticket)

    @never_raises
    def end(self, ticket: int, result: Any) -> None:
        """End the call with this ticket."""
        target, finish = self.target, self._open.pop(ticket, None)
        call = self._open_functions.pop(ticket, None)
        if call is not None:
            call.quiet.__exit__(None, None, None)
        if target is not None and finish is not None:
            with target.quiet():
                finish(result)

    @never_raises
    def run_enter(self, values: list[torch.Tensor], sizes: list[int], key: int) -> int:
        """Begin a traced call with the values of this run, and return its ticket."""
        staged = self._staged[key]
        with torch.no_grad():
            args, kwargs = self._unpacked(staged.arguments, values, sizes)
            return int(self.begin(staged.number, args, kwargs, staged) or 0)

    @never_raises
    def run_leave(self, values: list[torch.Tensor], sizes: list[int], ticket: int, key: int) -> None:
        """End a traced call with the values of this run."""
        with torch.no_grad():
            self.end(ticket, self._unpacked(self._staged[key].result, values, sizes))

    @never_raises
    def run_gradient(self, values: list[torch.Tensor], ticket: int, key: int, position: int) -> None:
        """Report gradients of a traced call: of the output at ``position``, or of arguments where that is negative."""
        receiver, target = self.receivers.get(ticket), self.target
        if receiver is None or target is None:
            return
        with target.quiet():
            if position >= 0:
                receiver.grad_output(position, values[0])
            else:
                receiver.grad_inputs(dict(zip(self._staged[key].slots, values, strict=True)))

    def _unpacked(self, packed: Packed, values: list[torch.Tensor], sizes: list[int]) -> Any:
        target = self.target
        if target is None:
            return packed.unpack(values, sizes)
        with target.quiet():  # at level mix detach is a recorded API
            return packed.unpack(values, sizes)

    def number(self, ticket: torch.Tensor) -> int:
        """Return the number that a ticket holds; it lies on the CPU, so this does not wait for a device."""
        target = self.target
        if target is None:
            return int(ticket)
        with target.quiet():
            return int(ticket)

    def _stack(self) -> list[int]:
        stack: list[int] | None = getattr(self._tracing, "stack", None)
        if stack is None:
            stack = self._tracing.stack = []
        return stack


def _tracer() -> Any:
    """Return what traces the graph now; None while the compiler only tries the code out."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    return None if mode is None else mode.tracer


@contextlib.contextmanager
def _run_once() -> Iterator[list[str]]:
    """Mark what is added to the graph inside, so that the backward pass does not run it again (checkpointing).

    The list that is yielded afterwards has the marks that said it would.
    """
    tracer = _tracer()
    nodes = () if tracer is None else tracer.graph.nodes
    before = len(nodes)
    found: list[str] = []
    yield found
    for node in itertools.islice(reversed(nodes), len(nodes) - before):
        found += [mark for mark in _RECOMPUTATION_MARKS if node.meta.pop(mark, None) is not None]


class StagedCall:
    """One call in one traced graph: the shape of what its operators report.

    Attributes:
        outputs: how many outputs can have a gradient; None when the call has no backward in this graph.
        slots: the arguments whose gradients the backward graph reports.
    """

    __slots__ = ("arguments", "keywords", "number", "outputs", "positional", "prepared", "result", "slots")

    def __init__(self, number: int, arguments: Packed, prepared: Any, template: Template):
        self.number = number
        self.arguments = arguments
        self.prepared = prepared
        self.positional, self.keywords = template
        self.result: Packed = NO_VALUES
        self.outputs: int | None = None
        self.slots: list[int] = []


class HandedCall:
    """Takes the place of ``GradientSlots`` for a call that runs inside a graph, which has its hooks already."""

    __slots__ = ("_calls", "_outputs", "_ticket", "keywords", "positional")

    def __init__(self, calls: CompiledCalls, staged: StagedCall, ticket: int) -> None:
        self._calls = calls
        self._outputs = staged.outputs or 0
        self._ticket = ticket
        self.positional, self.keywords = staged.positional, staged.keywords

    def connect(self, receiver: Any) -> None:
        """Have the gradients that the compiled graph reports for this call go to ``receiver``."""
        receiver.expect(self._outputs)
        self._calls.receivers[self._ticket] = receiver


class _OperatorEmitter:
    """Receives gradients while the backward graph is traced, and adds operators to it that report those of each run."""

    def __init__(self, staged: StagedCall, ticket: torch.Tensor, key: int) -> None:
        self._staged = staged
        self._ticket = ticket
        self._key = key
        self._single: dict[int, Any] = {}
        self.errors = CALLS.errors

    def expect(self, outputs: int) -> None:
        """Keep how many outputs can have a gradient."""
        self._staged.outputs = outputs

    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        """Add operators for all gradients of the call."""
        for position, gradient in enumerate(grad_outputs):
            self.grad_output(position, gradient)
        self.grad_inputs(grad_inputs)

    def grad_output(self, position: int, gradient: Any) -> None:
        """Add an operator that reports the gradient of the output at ``position``."""
        if gradient is not None:
            torch.ops.msprobe.gradient([gradient], self._ticket, self._key, position)

    def grad_input(self, slot: int, gradient: Any) -> None:
        """Keep the gradient of one argument for the operator that reports them all."""
        self._single[slot] = gradient

    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        """Add an operator that reports the gradients of the arguments, which are given by slot."""
        gradients, self._single = {**self._single, **gradients}, {}
        present = {slot: gradient for slot, gradient in gradients.items() if gradient is not None}
        self._staged.slots = list(present)
        torch.ops.msprobe.gradient(list(present.values()), self._ticket, self._key, -1)


@dataclass(frozen=True, slots=True)
class Target:
    """What compiled code reports to: the current observer, the gradient tap, and the names of the modules."""

    current: CurrentObserver
    gradients: TracedGradientTap
    site: FindSite
    quiet: MakeQuiet


class FindSite(Protocol):
    """Returns the name of a module's calls, or None."""

    def __call__(self, module: nn.Module) -> Any: ...


class MakeQuiet(Protocol):
    """Returns a context in which nothing that this thread calls is recorded."""

    def __call__(self) -> AbstractContextManager[None]: ...


class TracedGradientTap(GradientTap, Protocol):
    """A gradient tap that can be given the gradients of a call inside compiled code."""

    def with_call(self, call: Any) -> AbstractContextManager[None]:
        """Answer ``prepare`` with ``call`` inside the context, where autograd is off."""
        ...


class _ModuleReference(weakref.ref[nn.Module]):
    """A module that may die, and its number, which goes away when the next is registered: its ``id`` may be used again.

    It dies at any moment: while Dynamo iterates over ``module_numbers``, or where Python drops what a handler of the
    program raises. So C code alone runs then.
    """

    __slots__ = ("identity", "number")

    def __new__(cls, module: nn.Module, number: int) -> _ModuleReference:
        return super().__new__(cls, module, _dead.append)

    def __init__(self, module: nn.Module, number: int) -> None:
        super().__init__(module, _dead.append)  # type: ignore[call-arg]
        self.identity, self.number = id(module), number


module_numbers: dict[int, int] = {}  # by id of the module, for those that have a name; Dynamo guards on it
_dead: list[Any] = []  # the references of those that have died
CALLS = CompiledCalls()
