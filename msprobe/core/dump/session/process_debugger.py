"""The session of the process, which ``PrecisionDebugger.start()`` and its like find from anywhere in the program.

``docs/architecture.md`` lists all mutable state of the package that belongs to the process and not to an object.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

from msprobe.core.errors import MsprobeException

LOCK = threading.RLock()
_current: Any = None
_in_force: Callable[[], bool] | None = None
_inherited: Any = None  # in a forked child: the session of the parent, until ``current`` is called


def current() -> Any:
    """Return the session of this process. In a forked child it becomes one like the parent's, in folders of its own.

    Raises:
        MsprobeException: there is no session, or its debugger was removed.
    """
    global _current, _inherited
    if _current is None and _inherited is not None:
        _current, _inherited = _inherited, None
        _current.inherit()
        at_end_of_child(_close_at_exit)
    if _current is None or (_in_force is not None and not _in_force()):
        raise MsprobeException(3, "PrecisionDebugger instance is not created: call PrecisionDebugger(...) first")
    return _current


def peek() -> Any:
    """Return the session of this process, or None."""
    return _current


def put(session: Any, in_force: Callable[[], bool] | None = None) -> None:
    """Make ``session`` the session of this process; None removes it.

    Args:
        in_force: returns whether the session still counts; None for always.
    """
    global _current, _in_force, _inherited
    _current, _in_force, _inherited = session, in_force, None
    if session is not None:
        at_end_of_child(_close_at_exit)


def trigger(kind: str, reason: str, asked: bool = False) -> None:
    """Write the steps that the session of this process keeps in memory; do nothing where there are none.

    Args:
        kind: the kind of the reason, as in ``ring.on``.
        reason: a sentence.
        asked: the user asks for it, who is told when nothing is kept.
    """
    with LOCK:
        session = _current
        if session is not None and hasattr(session, "trigger"):
            session.trigger(kind, reason, asked)


def uncaught_error() -> BaseException | None:
    """Return the exception by which the program ends, when Python has printed its trace; None otherwise.

    In an interactive session an error ends nothing.
    """
    return None if hasattr(sys, "ps1") else shown_error()


def shown_error() -> BaseException | None:
    """Return the last exception of which Python, or a notebook, has printed the trace; None for none."""
    return getattr(sys, "last_value", None)


def at_end_of_child(function: Callable[[], object]) -> None:
    """Call ``function`` at the end of this process if it is a child of ``multiprocessing``.

    Such a one may end by ``os._exit``, without what is registered with ``atexit``. What comes last is called first.
    """
    if multiprocessing.parent_process() is not None:
        Finalize(None, function, exitpriority=0)


@atexit.register
def _close_at_exit() -> None:
    session = _current
    if session is not None:
        put(None)
        session.close()


def _abandon_in_child() -> None:
    """Detach a forked child (a data loader's worker, a trainer): it must not write into the files of its parent."""
    global LOCK, _current, _inherited
    LOCK = threading.RLock()
    session, _current = _current, None
    if session is not None:
        session.abandon()
        _inherited = session


os.register_at_fork(after_in_child=_abandon_in_child)
