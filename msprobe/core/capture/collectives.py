"""Wrap the functions of communication.

They differ from other functions in two ways. A buffer that only receives is no input, so it is null in the record. And
an asynchronous call, which returned a ``Work``, is over when that work has been waited for (``PendingWorks``); an
adapter says how each call ends.

``wait`` is replaced in the class of the works, never in a work itself, so that the objects of the user do not change.
It is replaced while calls are recorded, and after that only as long as a recorded work is outstanding.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msprobe.core.capture.observer import CallSite, CurrentObserver, Observer
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import Arguments, never
from msprobe.core.interruption import let_through

HiddenParameter = tuple[int, str] | None
"""Position and name of a parameter that stands as null in the record."""
End = Callable[[Any, Arguments, Any], None]
"""Called with the record, the arguments and the result when the function has returned."""
Ranks = Callable[[Arguments], Sequence[int] | None]
"""Returns the ranks of the group that a call communicates in; None when the process is not a member."""


class CollectiveCalls:
    """Make the wrappers for the functions of one framework.

    Args:
        receives: by function, the position of the parameter that carries no data yet.
        current: holds the current observer.
        thread: is made busy while a call is observed.
        traced: returns whether a compiler reads the code instead of running it.
    """

    def __init__(
        self,
        receives: Mapping[str, int],
        current: CurrentObserver,
        thread: ThreadState,
        traced: Callable[[], bool] = never,
    ) -> None:
        self._receives = receives
        self._current = current
        self._thread = thread
        self._traced = traced

    def observed(
        self,
        site: CallSite,
        original: Callable[..., Any],
        end: End,
        call: Callable[..., Any] | None = None,
        ranks: Ranks | None = None,
        given: Callable[[Arguments], Arguments] | None = None,
    ) -> Callable[..., Any]:
        """Return a wrapper of ``original`` that reports its calls.

        Args:
            site: the API that the calls are recorded as.
            original: the function of the framework.
            end: called when the function has returned.
            call: is called in place of ``original``.
            ranks: finds the group of a call; without it no group is reported.
            given: returns the arguments to record as inputs; without it the buffer that only receives is left out.
        """
        current, thread, traced, run = self._current, self._thread, self._traced, call or original
        hidden = receive_parameter(original, self._receives.get(site.api))
        inputs = given or functools.partial(without_parameter, hidden=hidden)

        @functools.wraps(original)
        def observed(*args: Any, **kwargs: Any) -> Any:
            if traced():
                return original(*args, **kwargs)
            observer = current.observer
            if thread.busy or observer is None:
                return run(*args, **kwargs)
            try:
                thread.busy = True
                record = observer.api_begin(site, *inputs((args, kwargs)))
                if record is None:
                    return run(*args, **kwargs)
                if ranks is not None:
                    observer.communicates(record, ranks, (args, kwargs))
                try:
                    result = run(*args, **kwargs)
                except BaseException as error:
                    observer.fail(record, error)
                    raise
                end(record, (args, kwargs), result)
                return result
            finally:
                thread.busy = False

        return observed

    def with_rank_notice(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of the function that gives the process its rank; it calls ``on_rank`` afterwards."""

        @functools.wraps(original)
        def with_notice(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._current.on_rank is not None:
                self._current.on_rank()
            return result

        return with_notice


@functools.lru_cache(1024)
def group_id(ranks: tuple[int, ...]) -> str:
    """Return the identity of the process group of these ranks: the CRC-32 of the text of their list."""
    return f"{zlib.crc32(str(list(ranks)).encode()):08x}"


def argument_named(name: str, function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    """Return a function that finds the argument ``name`` of a call of ``function``; it gives None without one."""
    names = _parameter_names(function)
    position = names.index(name) if name in names else sys.maxsize

    def find(arguments: Arguments) -> Any:
        positional, keywords = arguments
        return positional[position] if len(positional) > position else keywords.get(name)

    return find


def receive_parameter(function: Callable[..., Any], position: int | None) -> HiddenParameter:
    """Return the parameter at ``position`` of a function, with an empty name where the function shows none."""
    if position is None:
        return None
    names = _parameter_names(function)
    return position, names[position] if position < len(names) else ""


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError) as error:  # written in another language
        let_through(error)
        return []


def without_parameter(arguments: Arguments, hidden: HiddenParameter) -> Arguments:
    """Return the arguments with None in place of the hidden one."""
    if hidden is None:
        return arguments
    (position, key), (positional, keywords) = hidden, arguments
    if len(positional) > position:
        return (*positional[:position], None, *positional[position + 1 :]), keywords
    return positional, {**keywords, key: None} if key in keywords else keywords


class Arrivals(Protocol):
    """Tensors whose communication is under way when a call that has them is recorded."""

    put: int
    """The number of tensors added so far."""

    @property
    def outstanding(self) -> bool:
        """Whether the values of a tensor that was added may still arrive."""
        ...

    def add(self, tensor: Any, complete: Callable[[Any], None]) -> bool:
        """Call ``complete`` with the values of ``tensor`` when the program has waited for them; return False for a
        tensor that is not under way."""
        ...


class PendingWorks:
    """The works of recorded calls that nobody has waited for yet; a work that dies before is dropped."""

    def __init__(self, current: CurrentObserver, thread: ThreadState) -> None:
        self._current = current
        self._thread = thread
        self._waiting: dict[int, tuple[weakref.ref[Any], PendingCall, int]] = {}
        self._patches = Patches()
        self._observed_classes: set[type] = set()
        self._attached = False

    def attach(self) -> None:
        """Observe ``wait`` from now on."""
        self._attached = True
        self._patches.apply()

    def detach(self) -> None:
        """Observe ``wait`` only as long as works are outstanding."""
        self._attached = False
        self._undo_if_idle()

    def clear(self) -> None:
        """Drop all works: a new step begins, and works of the one before belong to no record."""
        self._waiting.clear()
        self._undo_if_idle()

    def add(self, call: PendingCall, works: Sequence[Any]) -> None:
        """End ``call`` when all of ``works`` have been waited for."""
        call.outstanding = len(works)
        for position, work in enumerate(works):
            self._observe_class(type(work))
            drop = functools.partial(self._waiting.pop, id(work))  # C code, in which no handler is called
            self._waiting[id(work)] = (weakref.ref(work, drop), call, position)

    def end_now(self, call: PendingCall) -> None:
        """End ``call``, whose work is done already."""
        self._done(call, 0)

    def _observe_class(self, kind: type) -> None:
        owner = next(base for base in kind.__mro__ if "wait" in vars(base))
        if owner not in self._observed_classes:
            self._observed_classes.add(owner)
            self._patches.plan(owner, "wait", self._observed_wait(vars(owner)["wait"]))
        self._patches.apply()

    def _undo_if_idle(self) -> None:
        if not self._attached and not self._waiting:
            self._patches.undo()

    def _observed_wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        waiting = self._waiting

        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            entry = waiting.pop(id(work), None)
            if entry is None or entry[0]() is not work:
                return original(work, *args, **kwargs)
            try:
                result = original(work, *args, **kwargs)
            except BaseException as error:
                self._failed(entry[1], error)
                raise
            self._done(entry[1], entry[2])
            return result

        return wait

    def _done(self, call: PendingCall, position: int) -> None:
        busy = self._thread.busy
        try:
            self._thread.busy = True
            call.done(position, self._current.late_observer)
        finally:
            self._thread.busy = busy
        self._undo_if_idle()

    def _failed(self, call: PendingCall, error: BaseException) -> None:
        record, call.record = call.record, None
        observer = self._current.late_observer
        if record is not None and observer is not None:
            observer.fail(record, error)
        self._undo_if_idle()


class PendingCall:
    """One call with works outstanding.

    Args:
        record: the token that the observer returned when the call began.
        outputs: returns the values after the call; called once, when the last work is done.
        on_work: called with the position of every work that is done before the last.
    """

    __slots__ = ("on_work", "outputs", "outstanding", "record")

    def __init__(
        self, record: Any, outputs: Callable[[], tuple[Any, ...]], on_work: Callable[[int], None] | None = None
    ) -> None:
        self.record = record
        self.outputs = outputs
        self.on_work = on_work
        self.outstanding = 0

    def done(self, position: int, observer: Observer | None) -> None:
        """Note that the work at ``position`` has been waited for; end the record with the last of them."""
        self.outstanding -= 1
        if observer is None or self.record is None:
            return
        if not self.outstanding:
            observer.end(self.record, self.outputs())
        elif self.on_work is not None:
            self.on_work(position)


class PendingCalls(PendingCall):
    """Several calls that run together, with one work.

    Args:
        calls: for each, the token that the observer returned when the call began, and its values.
    """

    __slots__ = ("_calls",)

    def __init__(self, calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> None:
        super().__init__(calls[0][0], tuple)
        self._calls = calls

    def done(self, position: int, observer: Observer | None) -> None:
        """End all records: the work has been waited for."""
        self.outstanding -= 1
        if observer is not None and self.record is not None:
            for record, values in self._calls:
                observer.end(record, values)
