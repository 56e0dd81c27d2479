"""The one debugger of the process. The documented API calls ``PrecisionDebugger.start()`` from anywhere, so it must
be found.

This is the only mutable state of the package that belongs to the process and not to an object.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Any

from msprobe.core.errors import MsprobeException

LOCK = threading.RLock()
_current: Any = None
_in_force: Callable[[], bool] | None = None
_inherited: Any = None  # in a forked child: the session of the parent, until one is asked for


def current() -> Any:
    """The session of this process. A forked child that asks for it gets one like its parent's, in folders of its own.

    Raises:
        MsprobeException: there is none yet, or the debugger it belongs to was taken away.
    """
    global _current, _inherited
    if _current is None and _inherited is not None:
        _current, _inherited = _inherited, None
        _current.inherit()
    if _current is None or (_in_force is not None and not _in_force()):
        raise MsprobeException(3, "PrecisionDebugger instance is not created: call PrecisionDebugger(...) first")
    return _current


def peek() -> Any:
    """The session of this process, or None."""
    return _current


def put(session: Any, in_force: Callable[[], bool] | None = None) -> None:
    """Make ``session`` the one of this process, for as long as ``in_force`` says; None takes it away."""
    global _current, _in_force, _inherited
    _current, _in_force, _inherited = session, in_force, None


@atexit.register
def _close_at_exit() -> None:
    session = _current
    if session is not None:
        put(None)
        session.close()


def _forget_in_child() -> None:
    """A forked child (a data loader's worker, a trainer) must not write into its parent's files."""
    global LOCK, _current, _inherited
    LOCK = threading.RLock()
    session, _current = _current, None
    if session is not None:
        session.abandon()
        _inherited = session


os.register_at_fork(after_in_child=_forget_in_child)
