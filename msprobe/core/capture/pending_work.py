"""Asynchronous collectives: a call that handed out a ``Work`` is over when that work has been waited for.

``wait`` is observed on the class of the works, never on the works: the user's objects stay what they are. It is in
place while calls are recorded, and after that only as long as recorded works are still waited for.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from msprobe.core.capture.observer import Observer, Relay
from msprobe.core.capture.patch import Patches
from msprobe.core.capture.thread import ThreadState


class PendingCall:
    """One call with works outstanding.

    Args:
        record: what the observer gave at its begin.
        outputs: gives the values after the call, asked for once, when the last work is done.
        arrived: told the position of every work that is done before the last.
    """

    __slots__ = ("arrived", "left", "outputs", "record")

    def __init__(
        self, record: Any, outputs: Callable[[], tuple[Any, ...]], arrived: Callable[[int], None] | None = None
    ) -> None:
        self.record = record
        self.outputs = outputs
        self.arrived = arrived
        self.left = 0

    def done(self, position: int, observer: Observer | None) -> None:
        """The work at ``position`` has been waited for."""
        self.left -= 1
        if observer is None or self.record is None:
            return
        if not self.left:
            observer.end(self.record, self.outputs())
        elif self.arrived is not None:
            self.arrived(position)


class PendingWorks:
    """The works of recorded calls that nobody has waited for yet. A work that is dropped unwaited is forgotten."""

    def __init__(self, relay: Relay, thread: ThreadState) -> None:
        self._relay = relay
        self._thread = thread
        self._waiting: dict[int, tuple[weakref.ref[Any], PendingCall, int]] = {}
        self._patches = Patches()
        self._watched: set[type] = set()
        self._attached = False

    def attach(self) -> None:
        self._attached = True
        self._patches.apply()

    def detach(self) -> None:
        self._attached = False
        self._let_go()

    def clear(self) -> None:
        """A new step begins: what is waited for from now on belongs to no record."""
        self._waiting.clear()
        self._let_go()

    def add(self, call: PendingCall, works: Sequence[Any]) -> None:
        """End ``call`` when all of ``works`` have been waited for."""
        call.left = len(works)
        for position, work in enumerate(works):
            self._watch(type(work))
            gone = functools.partial(_forget, self._waiting, id(work))
            self._waiting[id(work)] = (weakref.ref(work, gone), call, position)

    def _watch(self, kind: type) -> None:
        owner = next(base for base in kind.__mro__ if "wait" in vars(base))
        if owner not in self._watched:
            self._watched.add(owner)
            self._patches.plan(owner, "wait", self._observed(vars(owner)["wait"]))
        self._patches.apply()

    def _let_go(self) -> None:
        if not self._attached and not self._waiting:
            self._patches.undo()

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
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
        busy, self._thread.busy = self._thread.busy, True
        try:
            call.done(position, self._relay.observer)
        finally:
            self._thread.busy = busy
        self._let_go()

    def _failed(self, call: PendingCall, error: BaseException) -> None:
        record, call.record = call.record, None
        if record is not None and self._relay.observer is not None:
            self._relay.observer.fail(record, error)
        self._let_go()


def _forget(waiting: dict[int, Any], key: int, _: object) -> None:
    waiting.pop(key, None)
