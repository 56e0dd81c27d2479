"""The tool at work: what it calls itself is not recorded."""

from __future__ import annotations

from msprobe.core.capture.thread import ThreadState


class Quiet:
    """Inside, nothing this thread calls is recorded."""

    __slots__ = ("_before", "_thread")

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread

    def __enter__(self) -> None:
        self._before = self._thread.busy
        self._thread.busy = True

    def __exit__(self, *_: object) -> None:
        self._thread.busy = self._before
