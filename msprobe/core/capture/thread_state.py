"""The state of a thread: whether it is inside an observed call, and which modules are running."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from msprobe.core.interruption import is_own_thread

CALLING = 2

F = TypeVar("F", bound=Callable[..., Any])


class ThreadState(threading.local):
    """The state of each thread. One instance serves all threads of a session; each reads attributes of its own.

    Attributes:
        busy: False, True (the tool is at work or an API is observed) or ``CALLING``. While it is not False, calls are
            not recorded. Where operators are recorded too it is ``CALLING`` while an observed API itself runs, so that
            the operators it calls can be distinguished from those of the tool. True in a thread of the tool.
        compiling: True while a compiler works, or a framework tries a model out; the modules that it calls are not
            called by the program.
        live: the check of the call that begins, where a task runs calls again; it is for the function of that call.
        module: the innermost observed module whose call runs, recorded or left out.
        reads: True while the program takes numbers out of a tensor.
        scopes: the records of the running modules (and ``optimizer``, ``clip_grad``), outermost first.
    """

    busy: int = False
    compiling = False
    live: Any = None
    module: Any = None
    reads = False

    def __init__(self) -> None:
        self.scopes: list[Any] = []
        self.busy = is_own_thread()

    def quiet(self) -> Quiet:
        """Return a context in which nothing that this thread calls is recorded, because the tool is at work."""
        return Quiet(self)


class Quiet:
    """A context in which ``busy`` of a thread is True; afterwards it is what it was before."""

    __slots__ = ("_before", "_thread")

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread

    def __enter__(self) -> None:
        self._before = self._thread.busy
        self._thread.busy = True

    def __exit__(self, *_: object) -> None:
        self._thread.busy = self._before


def quiet_hook(method: F) -> F:
    """Decorate a gradient hook: ``self._thread`` is busy while the method runs.

    The effect is that of ``ThreadState.quiet``, without an object per run, as hooks run once per recorded call. The
    signature is fixed because packing ``*arguments`` would cost 0.15 us a call: the method takes the gradients that a
    framework passes to a hook and one further argument, None where the framework passes none.
    """

    @functools.wraps(method)
    def hook(self: Any, gradients: Any, others: Any = None) -> Any:
        thread = self._thread
        busy = thread.busy
        try:
            thread.busy = True  # inside: an exception from outside may come at any point
            return method(self, gradients, others)
        finally:
            thread.busy = busy

    return hook  # type: ignore[return-value]
