"""What the tool knows about the current thread: whether it is inside an observed call, and the modules it is inside
of.
"""

from __future__ import annotations

import threading
from typing import Any


class ThreadState(threading.local):
    """One instance serves all threads of a session; every attribute is private to the thread that reads it.

    ``busy``: an API call is being observed, so calls it makes itself, and calls the tool makes, are not recorded.
    ``scopes``: the records of the running modules (and ``optimizer``, ``clip_grad``), outermost first.
    """

    busy = False

    def __init__(self) -> None:
        self.scopes: list[Any] = []
