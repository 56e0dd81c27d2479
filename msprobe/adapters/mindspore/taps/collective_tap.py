"""Observe communication: ``mint.distributed`` (``MintDistributed``) and ``communication.comm_func`` (``Distributed``).

The functions of ``mint.distributed`` work in place. The output of their records is the positional arguments and then
the keyword values as they are afterwards, and buffers that only receive are null among the inputs. The functions of
``comm_func`` return their results. A call that returns a handle is over when the program has waited for the handle.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mindspore import Tensor, communication, mint
from mindspore.communication import GlobalComm

from msprobe.core.capture.collectives import CollectiveCalls, PendingCall, PendingWorks, Ranks, argument_named
from msprobe.core.capture.containers import tensors_in
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.patching import Patches, Undo, note_applied
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.unwritten import UnwrittenMemory
from msprobe.core.capture.wrap import Arguments
from msprobe.core.interruption import ignored

_COMM = "mindspore.communication.comm_func"
_BATCH = "batch_isend_irecv"
_RECEIVES = {  # the position of the parameter that carries no data yet, in ``mint.distributed``
    "recv": 0,
    "irecv": 0,
    "all_gather": 0,
    "scatter": 0,
    "reduce_scatter": 0,
    "all_to_all": 0,
    "all_to_all_single": 0,
    "all_gather_into_tensor": 0,
    "reduce_scatter_tensor": 0,
    "gather": 1,
}


class MindSporeCollectiveTap:
    """Implements ``CollectiveTap``.

    Args:
        names: functions to record, by prefix; none at a level that records no APIs.
        unwritten: forgets the memory that a function of ``mint.distributed`` is given.
    """

    def __init__(
        self,
        names: Mapping[str, Sequence[str]],
        current: CurrentObserver,
        thread: ThreadState,
        unwritten: UnwrittenMemory | None = None,
    ) -> None:
        self._unwritten = unwritten
        self._current = current
        self._thread = thread
        self._patches = Patches()
        self._works = PendingWorks(current, thread)
        self._calls = CollectiveCalls(_RECEIVES, current, thread)
        self._returning = CollectiveCalls({}, current, thread)
        self._sites: list[CallSite] = []
        self._originals: dict[Any, Any] = {}
        owners = _owners()
        for prefix, functions in names.items():
            owner = owners.get(prefix)
            for name in functions:
                if owner is not None and callable(getattr(owner, name, None)):
                    self._plan(owner, prefix, name, in_place=prefix == "MintDistributed")
            if owner is not None and hasattr(owner, "P2POp"):
                self._unwrap_operation_arguments(owner.P2POp)
        for owner, name in ((communication, "init"), (mint.distributed, "init_process_group")):
            if hasattr(owner, name):
                self._patches.plan(owner, name, self._calls.with_rank_notice(getattr(owner, name)))

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        end = Undo(self._works.detach)
        note_applied(end)
        try:
            self._works.attach()
            with self._patches.in_force():
                yield
        finally:
            end.undo()

    def reset(self) -> None:
        self._works.clear()
        for site in self._sites:
            site.reset()

    def _plan(self, owner: Any, prefix: str, name: str, in_place: bool) -> None:
        original = getattr(owner, name)
        site = CallSite(prefix, name)
        site.differentiable = False
        self._sites.append(site)
        ranks = _ranks_finder(name, original)
        if in_place:
            wrapper = self._calls.observed(site, original, self._end_in_place, ranks=ranks)
        else:
            wrapper = self._returning.observed(site, original, self._end_returning, ranks=ranks)
        self._originals[wrapper] = original
        self._patches.plan(owner, name, wrapper)

    def _end_in_place(self, record: Any, arguments: Arguments, result: Any) -> None:
        positional, keywords = arguments
        values = (*positional, *keywords.values())
        if self._unwritten is not None and self._unwritten.known:
            operations = (vars(value).get("tensor") for value in _parts(values[:1]) if hasattr(value, "__dict__"))
            self._unwritten.forget(tensors_in((values, tuple(operations)), Tensor))
        self._end(record, values, result)

    def _end_returning(self, record: Any, arguments: Arguments, result: Any) -> None:
        values = tuple(part for part in _parts(result) if part is not None and not _is_handle(part))
        self._end(record, values, result)

    def _end(self, record: Any, outputs: tuple[Any, ...], result: Any) -> None:
        handles = [part for part in _parts(result) if _is_handle(part)]
        if handles:
            self._works.add(PendingCall(record, lambda: outputs), handles)
        elif (observer := self._current.late_observer) is not None:
            observer.end(record, outputs)

    def _unwrap_operation_arguments(self, operation: type) -> None:
        """Pass the original functions to ``P2POp``, which refuses the wrappers."""
        originals = self._originals
        create, initialise = operation.__new__, operation.__init__  # type: ignore[misc]

        @functools.wraps(create)
        def new(cls: type, op: Any, *args: Any, **kwargs: Any) -> Any:
            return create(cls, _original(originals, op), *args, **kwargs)

        @functools.wraps(initialise)
        def init(self: Any, op: Any, *args: Any, **kwargs: Any) -> None:
            initialise(self, _original(originals, op), *args, **kwargs)

        self._patches.plan(operation, "__new__", staticmethod(new))
        self._patches.plan(operation, "__init__", init)


def _ranks_finder(name: str, function: Callable[..., Any]) -> Ranks:
    """Return a function that finds the ranks of the group of a call; without an argument that is the default group.

    A group that has no name of MindSpore, as a package over it may make one, is not known.
    """
    find = argument_named("p2p_op_list" if name == _BATCH else "group", function)

    def ranks(arguments: Arguments) -> list[int] | None:
        group = find(arguments)
        if isinstance(group, list):
            group = group[0].group
        if group is None and GlobalComm.INITED:
            group = GlobalComm.WORLD_COMM_GROUP
        if not isinstance(group, str) or not group:  # a process that is not a member has an empty name
            return None
        return [int(rank) for rank in communication.get_process_group_ranks(group)]

    return ranks


def _owners() -> dict[str, Any]:
    """Return the module of each prefix in this version of MindSpore."""
    owners: dict[str, Any] = {}
    for prefix, path in (("MintDistributed", "mindspore.mint.distributed"), ("Distributed", _COMM)):
        with ignored(ImportError):
            owners[prefix] = importlib.import_module(path)
    return owners


def _original(originals: Mapping[Any, Any], op: Any) -> Any:
    return originals.get(op, op) if callable(op) else op


def _parts(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else (result,)


def _is_handle(part: Any) -> bool:
    return hasattr(type(part), "wait")
