"""What the tool knows about the current thread: whether it is inside an observed call, and the modules it is inside
of.
"""

from __future__ import annotations

import threading
from typing import Any

CALLING = 2


class ThreadState(threading.local):
    """One instance serves all threads of a session; every attribute is private to the thread that reads it.

    ``busy``: an API call is being observed, so calls it makes itself, and calls the tool makes, are not recorded.
    Where operators are recorded too it is ``CALLING`` while the API itself runs, so that those it calls are told from
    those of the tool.
    ``compiling``: a compiler is at work, and the calls of modules that it tries out are not the program's.
    ``scopes``: the records of the running modules (and ``optimizer``, ``clip_grad``), outermost first.
    """

    busy: int = False
    compiling = False

    def __init__(self) -> None:
        self.scopes: list[Any] = []

    def quiet(self) -> Quiet:
        """A context in which nothing this thread calls is recorded: the tool is at work."""
        return Quiet(self)


class Quiet:
    """Sets ``busy`` and puts back what it was."""

    __slots__ = ("_before", "_thread")

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread

    def __enter__(self) -> None:
        self._before = self._thread.busy
        self._thread.busy = True

    def __exit__(self, *_: object) -> None:
        self._thread.busy = self._before
