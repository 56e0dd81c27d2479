"""The flusher thread of the process writes what steps have recorded every ``FLUSH_SECONDS``.

That bounds how much a killed process can lose.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from queue import SimpleQueue
from typing import Protocol

from msprobe.core.errors import error_text
from msprobe.core.interruption import start_thread
from msprobe.core.log import first_time, logger

FLUSH_SECONDS = 0.05


class Flushed(Protocol):
    """An object that the flusher calls at every tick, such as a sink."""

    def tick(self) -> None:
        """Write, or pass on, what was added since the last tick."""
        ...

    def release(self) -> None:
        """Close files without writing: the process is a forked child, and the files belong to its parent."""
        ...


class Flusher:
    """One daemon thread for all open sinks; it starts with the first sink and never blocks exit."""

    def __init__(self) -> None:
        self._open: dict[int, weakref.ref[Flushed]] = {}  # by id; a WeakSet calls Python, where an exception is lost
        self._lock = threading.Lock()
        self._added: SimpleQueue[None] = SimpleQueue()  # one that waits is woken; no lock is left held by an interrupt
        self._is_running = False

    def add(self, flushed: Flushed) -> None:
        """Call ``flushed.tick`` every ``FLUSH_SECONDS`` from now on; no strong reference is kept."""
        with self._lock:
            self._open[id(flushed)] = weakref.ref(flushed)
            if not self._is_running:
                start_thread("msprobe-flusher", self._run)
        self._added.put(None)

    def remove(self, flushed: Flushed) -> None:
        """Call ``flushed.tick`` no more; a tick that runs already is not waited for."""
        with self._lock:
            self._open.pop(id(flushed), None)

    def release_all(self) -> None:
        """Start anew in a forked child: the thread is gone, and the open files belong to the parent."""
        inherited = self._living()
        self.__init__()  # type: ignore[misc]
        for flushed in inherited:
            flushed.release()

    def _run(self) -> None:
        with self._lock:
            if self._is_running:
                return
            self._is_running = True
        while True:
            while not self._present():
                self._added.get()
            time.sleep(FLUSH_SECONDS)
            for flushed in self._present():
                _tick(flushed)

    def _present(self) -> list[Flushed]:
        with self._lock:
            self._open = {key: held for key, held in self._open.items() if held() is not None}
            return self._living()

    def _living(self) -> list[Flushed]:
        return [flushed for held in self._open.values() if (flushed := held()) is not None]


def _tick(flushed: Flushed) -> None:
    """Flush one object. An exception must not stop the flusher thread: later steps need it."""
    try:
        flushed.tick()
    except Exception as error:  # noqa: BLE001
        if first_time("flusher"):
            logger.error("what was recorded could not be written: %s (the run goes on)", error_text(error))


FLUSHER = Flusher()
os.register_at_fork(after_in_child=FLUSHER.release_all)
