"""Observe the collectives and point-to-point functions of ``torch.distributed``, recorded as ``Distributed``.

The results of a collective are in its arguments: ``output`` holds the positional arguments and then the keyword values
as they are after the call, or, for a call that returns a ``Work``, after its ``wait``. Buffers that only receive are
null among the inputs, because their content before the call means nothing.

``P2POp`` and ``batch_isend_irecv`` compare functions with ``isend`` and ``irecv`` by identity, so an operation must
name the function that its module holds at that moment. While the two are wrapped, an operation always keeps the
original, whichever it was created with, and names the wrapper only inside a batch (``plan_operations``,
``present_operations``). So operations that are created before a start, or used after a stop, work.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed.distributed_c10d as c10d

from msprobe.adapters.pytorch.compile.compiled_calls import CALLS, BeginFunction
from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD, is_traced, traced_function
from msprobe.adapters.pytorch.taps.distribution import COLLECTIVES, TrialRuns
from msprobe.adapters.pytorch.taps.functional_collectives import FunctionalCollectives
from msprobe.adapters.pytorch.tensors.in_flight import TensorsInFlight
from msprobe.adapters.pytorch.tensors.memory import WithoutAutograd
from msprobe.core.capture.collectives import (
    CollectiveCalls,
    PendingCall,
    PendingCalls,
    PendingWorks,
    Ranks,
    argument_named,
    receive_parameter,
    without_parameter,
)
from msprobe.core.capture.containers import tensors_in
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.patching import Patches, Undo, note_applied
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.unwritten import UnwrittenMemory
from msprobe.core.capture.wrap import Arguments

POINT_TO_POINT = ("isend", "irecv")

_RUN_TOGETHER = (
    "allreduce_coalesced",
    "all_gather_single_coalesced",
    "allgather_into_tensor_coalesced",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "_end_coalescing",
)
"""The methods of a process group that run what the block of a ``_coalescing_manager`` has called."""
OWNERS = (torch.distributed, c10d)
_BATCH = "batch_isend_irecv"
_RECEIVES = {  # the position of the parameter that carries no data yet
    "recv": 0,
    "irecv": 0,
    "all_gather": 0,
    "scatter": 0,
    "reduce_scatter": 0,
    "_reduce_scatter_base": 0,
    "_all_gather_base": 0,
    "all_to_all": 0,
    "all_to_all_single": 0,
    "all_gather_into_tensor": 0,
    "reduce_scatter_tensor": 0,
    "all_gather_single": 0,
    "reduce_scatter_single": 0,
    "gather": 1,
}


class TorchCollectiveTap:
    """Implements ``CollectiveTap``.

    Args:
        names: functions of ``torch.distributed`` to record; none at a level that records no APIs.
        current: holds the current observer.
        thread: is made busy while a call is observed.
        unwritten: forgets the memory that a collective is given.
        in_flight: forgets at each step what nobody has waited for.
    """

    def __init__(
        self,
        names: Sequence[str],
        current: CurrentObserver,
        thread: ThreadState,
        unwritten: UnwrittenMemory,
        in_flight: TensorsInFlight,
    ) -> None:
        self._current = current
        self._thread = thread
        self._patches = Patches()
        self._works = PendingWorks(current, thread)
        self._calls = CollectiveCalls(_RECEIVES, current, thread, is_traced)
        self._unwritten = unwritten
        self._in_flight = in_flight
        self._trials = TrialRuns(thread)
        self._compiled: dict[int, BeginFunction] = {}
        self._sites: dict[str, CallSite] = {}
        self._functional = FunctionalCollectives(self._calls, current, self._site) if names else None
        self._together: list[tuple[Any, tuple[Any, ...]]] = []  # records of calls that run when their manager ends
        self._originals: dict[Any, Any] = {}  # isend and irecv by their wrappers
        for name in names:
            if hasattr(c10d, name):
                self._plan(name)
        if self._originals:
            plan_operations(self._patches, self._originals)
        for name in _RUN_TOGETHER if names else ():
            if name in vars(c10d.ProcessGroup):
                self._patches.plan(c10d.ProcessGroup, name, self._running_together(getattr(c10d.ProcessGroup, name)))
        self._replace("init_process_group", self._calls.with_rank_notice)

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        end = Undo(self._detach)
        note_applied(end)
        self._works.attach()
        if self._functional is not None:
            self._functional.plan(self._patches)
            self._compiled.update(self._functional.compiled)
        CALLS.functions.update(self._compiled)
        try:
            with RECOMPILE_GUARD.in_force(self._patches), self._trials.unobserved():
                yield
        finally:
            end.undo()

    def _detach(self) -> None:
        CALLS.functions.clear()
        self._works.detach()

    def reset(self) -> None:
        self._works.clear()
        self._together.clear()
        self._in_flight.clear()
        for site in self._sites.values():
            site.reset()

    def _plan(self, name: str) -> None:
        self._replace(name, functools.partial(self._observed, self._site(name)))

    def _site(self, name: str) -> CallSite:
        site = self._sites.get(name)
        if site is None:
            site = self._sites[name] = CallSite(COLLECTIVES, name)
            site.differentiable = False  # and all of them are of risk CORE
        return site

    def _replace(self, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Wrap a function under both owners, which usually hold the same object."""
        wrappers: dict[int, Callable[..., Any]] = {}
        for owner in OWNERS:
            original = getattr(owner, name, None)
            if original is None:
                continue
            wrapper = wrappers.get(id(original)) or wrappers.setdefault(id(original), wrap(original))
            self._patches.plan(owner, name, wrapper)
            if name in POINT_TO_POINT:
                self._originals[wrapper] = original

    def _observed(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        released = (0, "tensor") if site.api == "isend" else None
        call, given = (self._batch(original), _without_receives) if site.api == _BATCH else (original, None)

        def end(record: Any, arguments: Arguments, result: Any) -> None:
            self._end(record, without_parameter(arguments, released), result)

        ranks = _ranks_finder(site.api, original)
        hidden = receive_parameter(original, _RECEIVES.get(site.api))

        def begin(observer: Any, args: Any, kwargs: Any) -> Any:
            arguments = with_groups((tuple(args), kwargs))
            record = observer.api_begin(site, *without_parameter(arguments, hidden))
            if record is not None:
                observer.communicates(record, ranks, arguments)
            return None if record is None else functools.partial(_end_compiled, observer, record)

        number = CALLS.function_number(f"{site.api} of torch.distributed")
        self._compiled[number] = begin
        traced = traced_function(original, number, in_place=True)
        return self._calls.observed(site, traced, end, call, ranks, given)

    def _end(self, record: Any, arguments: Arguments, result: Any) -> None:
        works = result if isinstance(result, list) else [result]
        works = [work for work in works if isinstance(work, c10d.Work)]
        positional, keywords = arguments
        values = (*positional, *keywords.values())
        self._unwritten.forget(tensors_in(values, torch.Tensor))
        if isinstance(result, list) and works and values and isinstance(values[0], list):
            self._unwritten.forget(operation.tensor for operation in values[0])
            outputs = BatchOutputs(values[0], values[1:], len(works) == len(values[0]))
            self._works.add(PendingCall(record, outputs, outputs.on_work), works)
        elif c10d._world.pg_coalesce_state:
            self._together.append((record, values))  # it runs with others when their manager ends
        elif works:
            self._works.add(PendingCall(record, lambda: values), works)
        elif (observer := self._current.late_observer) is not None:
            observer.end(record, values)

    def _running_together(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method of a process group that also ends the records of the calls which it runs."""

        @functools.wraps(original)
        def run(group: Any, *args: Any, **kwargs: Any) -> Any:
            work = original(group, *args, **kwargs)
            if self._together and not c10d._world.pg_coalesce_state:  # inside another block they run later
                call = PendingCalls(self._together.copy())
                self._together.clear()
                if work is None:
                    self._works.end_now(call)
                else:
                    self._works.add(call, [work])
            return work

        return run

    def _batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            operations = args[0] if args else kwargs.get("p2p_op_list")
            with present_operations(operations, self._originals):
                return original(*args, **kwargs)

        return call


def with_groups(arguments: Arguments) -> Arguments:
    """Return the arguments of a call inside compiled code with the groups that the names of groups stand for."""
    positional, keywords = arguments
    return tuple(map(_group_named, positional)), {name: _group_named(value) for name, value in keywords.items()}


def _group_named(value: Any) -> Any:
    known = isinstance(value, str) and value in c10d._world.pg_names.values()
    return c10d._resolve_process_group(value) if known else value


def _end_compiled(observer: Any, record: Any, result: Any) -> None:
    observer.end(record, with_groups((tuple(result), {}))[0])


def _ranks_finder(name: str, function: Callable[..., Any]) -> Ranks:
    """Return a function that finds the ranks of the group of a call; without an argument that is the default group."""
    find = argument_named("p2p_op_list" if name == _BATCH else "group", function)

    def ranks(arguments: Arguments) -> list[int] | None:
        group = find(arguments)
        if isinstance(group, list):
            group = group[0].group
        if group is c10d.GroupMember.NON_GROUP_MEMBER:
            return None
        return c10d.get_process_group_ranks(c10d._get_default_group() if group is None else group)

    return ranks


def plan_operations(patches: Patches, originals: dict[Any, Any]) -> None:
    """Plan that ``P2POp`` accepts the wrappers of ``isend`` and ``irecv`` (keys) as well as the originals (values)."""
    check, initialise = c10d._check_op, c10d.P2POp.__init__
    accepted = set(originals.values())

    @functools.wraps(check)
    def check_op(op: Any) -> None:
        if originals.get(op, op) not in accepted:
            check(op)

    @functools.wraps(initialise)
    def init(self: Any, op: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, originals.get(op, op), *args, **kwargs)

    patches.plan(c10d, "_check_op", check_op)
    patches.plan(c10d.P2POp, "__init__", init)


@contextlib.contextmanager
def present_operations(operations: Any, originals: dict[Any, Any]) -> Iterator[None]:
    """Let ``operations`` name the functions that the module holds now as isend and irecv, inside this context."""
    present = {originals.get(held, held): held for held in (getattr(c10d, name) for name in POINT_TO_POINT)}
    batch = [op for op in operations if isinstance(op, c10d.P2POp)] if isinstance(operations, list) else []
    kept = [op.op for op in batch]
    for op in batch:
        op.op = present.get(op.op, op.op)
    try:
        yield
    finally:
        for op, function in zip(batch, kept, strict=True):
            op.op = function


class BatchOutputs:
    """The operations of a batch, each as it is when its work is done.

    A tensor is copied when its work is done and other works are outstanding, because the program may use the buffer
    again from then on.
    """

    def __init__(self, operations: Sequence[Any], rest: tuple[Any, ...], one_work_each: bool) -> None:
        self._operations = list(operations)
        self._rest = rest
        self._one_work_each = one_work_each

    def on_work(self, position: int) -> None:
        """Copy the tensor of the operation at ``position``, whose work is done."""
        if self._one_work_each:
            operation = self._operations[position]
            with WithoutAutograd():
                self._operations[position] = _with_tensor(operation, operation.tensor.detach().clone())

    def __call__(self) -> tuple[Any, ...]:
        return (self._operations, *self._rest)


def _without_receives(arguments: Arguments) -> Arguments:
    """Return the arguments of a batch without the tensors that its operations receive into."""
    positional, keywords = arguments
    if positional:
        return (_sending(positional[0]), *positional[1:]), keywords
    return positional, {name: _sending(value) for name, value in keywords.items()}


def _sending(operations: Any) -> Any:
    if not isinstance(operations, list):
        return operations
    return [_with_tensor(each, None) if _receives(each) else each for each in operations]


def _receives(operation: Any) -> bool:
    return isinstance(operation, c10d.P2POp) and getattr(operation.op, "__name__", "") == "irecv"


def _with_tensor(operation: Any, tensor: torch.Tensor | None) -> Any:
    other = object.__new__(type(operation))
    vars(other).update(vars(operation), tensor=tensor)
    return other
