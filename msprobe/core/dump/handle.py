"""The one debugger of the process. The documented API calls ``PrecisionDebugger.start()`` from anywhere, so it must
be found.

This is the only mutable state of the package that belongs to the process and not to an object.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any

from msprobe.core.errors import MsprobeException

LOCK = threading.RLock()
_current: Any = None


def current() -> Any:
    """The session of this process.

    Raises:
        MsprobeException: there is none yet.
    """
    if _current is None:
        raise MsprobeException(3, "PrecisionDebugger instance is not created: call PrecisionDebugger(...) first")
    return _current


def peek() -> Any:
    """The session of this process, or None."""
    return _current


def put(session: Any) -> None:
    """Make ``session`` the one of this process; None takes it away."""
    global _current
    _current = session


@atexit.register
def _close_at_exit() -> None:
    session = _current
    if session is not None:
        put(None)
        session.close()


def _forget_in_child() -> None:
    """A forked child (a data loader's worker) must not write into its parent's files."""
    global LOCK
    LOCK = threading.RLock()
    session = _current
    put(None)
    if session is not None:
        session.abandon()


os.register_at_fork(after_in_child=_forget_in_child)
