"""The beat of the process: what steps have recorded goes to the disk every ``FLUSH_SECONDS``.

That bounds what a killed process can lose.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

from msprobe.core.errors import error_text
from msprobe.core.log import first_time, logger

FLUSH_SECONDS = 0.05


class Flushed(Protocol):
    """What is beaten: ``tick`` writes what has been added, ``release`` lets go of the file without writing."""

    def tick(self) -> None: ...

    def release(self) -> None: ...


class Flusher:
    """One thread for all that is open. Started with the first, never blocks exit."""

    def __init__(self) -> None:
        self._open: weakref.WeakSet[Flushed] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, flushed: Flushed) -> None:
        with self._lock:
            self._open.add(flushed)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="msprobe-flusher", daemon=True)
                self._thread.start()
        self._wake.set()

    def remove(self, flushed: Flushed) -> None:
        with self._lock:
            self._open.discard(flushed)
            if not self._open:
                self._wake.clear()

    def forget(self) -> None:
        """In a forked child: the thread is gone and what is open belongs to the parent."""
        left = list(self._open)
        self.__init__()  # type: ignore[misc]
        for flushed in left:
            flushed.release()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._wake.wait()
            pause.wait(FLUSH_SECONDS)
            with self._lock:
                beaten = list(self._open)
            for flushed in beaten:
                _tick(flushed)


def _tick(flushed: Flushed) -> None:
    """One beat of one. The flusher serves every step to come, so no record may end it."""
    try:
        flushed.tick()
    except Exception as error:  # noqa: BLE001
        if first_time("flusher"):
            logger.error("what was recorded could not be written: %s (the run goes on)", error_text(error))


FLUSHER = Flusher()
os.register_at_fork(after_in_child=FLUSHER.forget)
