"""The calls that run inside compiled code: staged while a graph is traced, reported while it runs.

One table for the process, not for a session: compiled code outlives the session it was compiled in.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compiled_target import Target
from msprobe.adapters.pytorch.compiled_values import NO_VALUES, Packed, pack
from msprobe.core.backend.protocols import Template
from msprobe.core.dump.shield import ErrorLog, never_raises

_RECOMPUTATION_MARKS = ("recompute", "ac_graph_id")


class StagedCall:
    """One call in one traced graph: the shape of what its operators hand over.

    ``outputs`` is how many outputs can bring a gradient; None when the call has no backward in this graph.
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
    """Takes the place of ``Prepared`` for a call that runs inside a graph: its hooks are in the graph already."""

    __slots__ = ("_calls", "_outputs", "_ticket", "keywords", "positional")

    def __init__(self, calls: CompiledCalls, staged: StagedCall, ticket: int) -> None:
        self._calls = calls
        self._outputs = staged.outputs or 0
        self._ticket = ticket
        self.positional, self.keywords = staged.positional, staged.keywords

    def connect(self, receiver: Any) -> None:
        receiver.expect(self._outputs)
        self._calls.receivers[self._ticket] = receiver


class _Emitter:
    """Receives gradients while the backward graph is traced, and puts operators there that report the real ones."""

    def __init__(self, staged: StagedCall, ticket: torch.Tensor, key: int) -> None:
        self._staged = staged
        self._ticket = ticket
        self._key = key
        self.errors = CALLS.errors

    def expect(self, outputs: int) -> None:
        self._staged.outputs = outputs

    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        for position, gradient in enumerate(grad_outputs):
            self.grad_output(position, gradient)
        self.grad_inputs(grad_inputs)

    def grad_output(self, position: int, gradient: Any) -> None:
        if gradient is not None:
            torch.ops.msprobe.gradient([gradient], self._ticket, self._key, position)

    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        present = {slot: gradient for slot, gradient in gradients.items() if gradient is not None}
        self._staged.slots = list(present)
        torch.ops.msprobe.gradient(list(present.values()), self._ticket, self._key, -1)


class CompiledCalls:
    """All calls of the process that run inside compiled code, for whichever session is attached."""

    def __init__(self) -> None:
        self.errors = ErrorLog(None)
        self.target: Target | None = None
        self.modules: dict[int, weakref.ref[nn.Module]] = {}
        self.receivers: dict[int, Any] = {}
        self._open: dict[int, tuple[Any, Any]] = {}
        self._staged: dict[int, StagedCall] = {}
        self._tracing = threading.local()
        self._counter: Iterator[int] = itertools.count(1)

    def know(self, module: nn.Module) -> None:
        """Give ``module`` a number that compiled code can name it by."""
        if id(module) not in numbers:
            number = next(self._counter)
            self.modules[number] = weakref.ref(module, _Forget(id(module), number))
            numbers[id(module)] = number

    def reset(self) -> None:
        """A new step: nothing of the one before is waited for."""
        self.receivers.clear()
        self._open.clear()

    # ---- while a graph is traced ----

    @never_raises
    def stage_enter(self, number: int, args: Any, kwargs: Any) -> torch.Tensor | None:
        target = self.target
        if target is None:
            return None
        key = next(self._counter)
        with target.quiet(), _run_once():
            packed = pack((args, kwargs))
            prepared = target.gradients.prepare(args, kwargs)
            template = ([], {}) if prepared is None else target.gradients.template(prepared)
            self._staged[key] = StagedCall(number, packed, prepared, template)
            ticket: torch.Tensor = torch.ops.msprobe.enter(packed.tensors, packed.numbers, key)
        self._stack().append(key)
        return ticket

    @never_raises
    def stage_leave(self, number: int, ticket: torch.Tensor, result: Any) -> None:
        target, stack = self.target, self._stack()
        while stack and self._staged[stack[-1]].number != number:
            stack.pop()  # entered by a trace that was given up
        if target is None or not stack:
            return
        key = stack.pop()
        staged = self._staged[key]
        with target.quiet(), _run_once():
            packed = pack(result)
            staged.result, prepared, staged.prepared = packed, staged.prepared, None
            torch.ops.msprobe.leave(packed.tensors, packed.numbers, ticket, key)
            if prepared is not None:
                target.gradients.attach(prepared, result, _Emitter(staged, ticket, key), announced=True)
        packed.forget()
        staged.arguments.forget()

    # ---- while the code runs ----

    @never_raises
    def begin(self, number: int, args: Any, kwargs: Any, staged: StagedCall | None = None) -> int:
        """Begin a call; the answer is its ticket, 0 for one that is not recorded."""
        target = self.target
        module = self.modules[number]() if number in self.modules else None
        site = None if target is None or module is None else target.site(module)
        observer = None if target is None else target.relay.observer
        if target is None or site is None or observer is None:
            return 0
        ticket = next(self._counter)
        handed = None if staged is None or staged.outputs is None else HandedCall(self, staged, ticket)
        with target.quiet(), target.gradients.handing(handed):
            self._open[ticket] = (observer, observer.module_begin(site, args, kwargs))
        return ticket

    @never_raises
    def end(self, ticket: int, result: Any) -> None:
        target = self.target
        observer, record = self._open.pop(ticket, (None, None))
        if target is not None and record is not None:
            with target.quiet():
                observer.module_end(record, result)

    @never_raises
    def run_enter(self, values: list[torch.Tensor], sizes: list[int], key: int) -> int:
        staged = self._staged[key]
        with torch.no_grad():
            args, kwargs = self._unpacked(staged.arguments, values, sizes)
            return int(self.begin(staged.number, args, kwargs, staged) or 0)

    @never_raises
    def run_leave(self, values: list[torch.Tensor], sizes: list[int], ticket: int, key: int) -> None:
        with torch.no_grad():
            self.end(ticket, self._unpacked(self._staged[key].result, values, sizes))

    @never_raises
    def run_gradient(self, values: list[torch.Tensor], ticket: int, key: int, position: int) -> None:
        receiver, target = self.receivers.get(ticket), self.target
        if receiver is None or target is None:
            return
        with target.quiet():
            if position >= 0:
                receiver.grad_output(position, values[0])
            else:
                receiver.grad_inputs(dict(zip(self._staged[key].slots, values, strict=True)))

    def _unpacked(self, packed: Packed, values: list[torch.Tensor], sizes: list[int]) -> Any:
        if self.target is None:
            return packed.unpack(values, sizes)
        with self.target.quiet():  # at level mix detach is a recorded API
            return packed.unpack(values, sizes)

    def number(self, ticket: torch.Tensor) -> int:
        """The ticket's number; it lies on the CPU, so nothing is waited for."""
        if self.target is None:
            return int(ticket)
        with self.target.quiet():
            return int(ticket)

    def _stack(self) -> list[int]:
        stack: list[int] | None = getattr(self._tracing, "stack", None)
        if stack is None:
            stack = self._tracing.stack = []
        return stack


@contextlib.contextmanager
def _run_once() -> Iterator[None]:
    """What is put into the graph inside is not computed again in the backward pass, even in a checkpointed region."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    nodes = () if mode is None else mode.tracer.graph.nodes
    before = len(nodes)
    yield
    for node in itertools.islice(reversed(nodes), len(nodes) - before):
        for mark in _RECOMPUTATION_MARKS:
            node.meta.pop(mark, None)


class _Forget:
    """A module is gone: its ``id`` may be used again by another one."""

    def __init__(self, identity: int, number: int) -> None:
        self._identity, self._number = identity, number

    def __call__(self, _: object) -> None:
        if numbers.get(self._identity) == self._number:
            del numbers[self._identity]
        CALLS.modules.pop(self._number, None)


numbers: dict[int, int] = {}  # of the modules that have a name, by id; Dynamo guards on it
CALLS = CompiledCalls()
