"""``async_dump``: checksums and tensor files are made by a thread, from a copy taken when the call was observed.

    training thread:   describe, copy, put ───────────────▶ [ bytes waiting <= limit ] ──▶ worker: checksum, file

Statistics stay on the training thread: the one pass that makes them costs no more than the copy that would replace it
(and on a device nothing waits for them anyway). Copies that wait count their bytes; beyond the limit the training
thread waits for the worker, so memory is bounded whatever the disk does. Results equal the synchronous ones: the same
code runs on the copy. A record is laid out only when its last job is done.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from msprobe.core.backend.protocols import TensorOps
from msprobe.core.capture.describe import Node
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.leaf import LeafTask
from msprobe.core.dump.shield import ErrorLog, shielded
from msprobe.core.log import logger

LIMIT_VARIABLE = "MSPROBE_ASYNC_BYTES"
DEFAULT_LIMIT = 1 << 30

Job = Callable[[], None]


class Background:
    """One worker thread with a queue bounded in bytes.

    Args:
        limit: bytes that may wait; a single job may be larger when nothing else waits.
        thread: the session's per-thread state: what the worker calls is the tool's, never recorded.
    """

    def __init__(self, limit: int, thread: ThreadState) -> None:
        self.errors = ErrorLog(None)
        self._limit = limit
        self._state = thread
        self._changed = threading.Condition()
        self._jobs: deque[tuple[Job, int]] = deque()
        self._bytes = 0
        self.jobs_put = 0
        self.jobs_done = 0
        self._worker: threading.Thread | None = None
        self._abandoned = False

    @property
    def outstanding(self) -> bool:
        """Whether a job is not done yet."""
        return self.jobs_done != self.jobs_put

    def put(self, job: Job, size: int) -> None:
        """Queue a job that keeps ``size`` bytes alive; waits while the queue is full."""
        if self._abandoned:
            return
        with self._changed:
            if not self._start_worker():
                self.run(job)
                return
            while self._bytes and self._bytes + size > self._limit:
                self._changed.wait()
            self._jobs.append((job, size))
            self._bytes += size
            self.jobs_put += 1
            self._changed.notify_all()

    def drain(self) -> None:
        """Return when every job put so far is done. Jobs put meanwhile are not waited for."""
        if self._abandoned:
            return
        with self._changed:
            goal = self.jobs_put
            while self.jobs_done < goal:
                self._changed.wait()

    def abandon(self) -> None:
        """In a forked child: the worker is gone, its lock may be held for ever; drop everything."""
        self._abandoned = True
        self.jobs_put = self.jobs_done = 0

    @shielded
    def run(self, job: Job) -> None:
        job()

    def _start_worker(self) -> bool:
        if self._worker is None:
            worker = threading.Thread(target=self._work, name="msprobe-async-dump", daemon=True)
            try:
                worker.start()
            except RuntimeError:  # the interpreter is shutting down: no new threads
                return False
            self._worker = worker
        return True

    def _work(self) -> None:
        self._state.busy = True
        while True:
            with self._changed:
                while not self._jobs:
                    self._changed.wait()
                job, size = self._jobs.popleft()
            self.run(job)
            del job  # before the bytes count as free
            with self._changed:
                self._bytes -= size
                self.jobs_done += 1
                self._changed.notify_all()


class BackgroundLeaves(LeafTask[Any]):
    """Makes the nodes of tensors with what takes long done in the background."""

    def __init__(self, leaves: LeafTask[Any], background: Background) -> None:
        super().__init__(leaves.ops, leaves.summary_mode, leaves.folder, leaves.projection)
        self._background = background

    def leaf(self, tensor: Any, place: str, around: tuple[int, ...] = ()) -> Node:
        node = self.described(tensor)
        if not place and self._checksum is None:
            return node
        snapshot = self.ops.snapshot(tensor)
        if snapshot is None:  # no data behind it: nothing to save, and the checksum says so by itself
            self.complete(tensor, "", node)
            return node
        copy, size = snapshot
        self._background.put(lambda: self.complete(copy(), place, node), size)
        return node

    def settle(self) -> None:
        self._background.drain()
        super().settle()


class Settling:
    """Stands between sink and framework: records wait for device statistics and for the background."""

    def __init__(self, ops: TensorOps[Any], background: Background) -> None:
        self._ops = ops
        self._background = background

    @property
    def outstanding(self) -> bool:
        return self._background.outstanding or self._ops.outstanding

    @property
    def put(self) -> int:
        return self._background.jobs_put

    @property
    def done(self) -> int:
        return self._background.jobs_done

    def settle_statistics(self) -> None:
        """Return when the numbers that do not come from the background are there."""
        self._ops.settle()

    def settle(self) -> None:
        self._background.drain()
        self._ops.settle()


def queue_limit() -> int:
    """Bytes that may wait, from the environment variable ``MSPROBE_ASYNC_BYTES`` or 1 GiB."""
    written = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not written:
        return DEFAULT_LIMIT
    if written.isdigit() and int(written) > 0:
        return int(written)
    logger.warning("%s=%r is not a positive number of bytes; using %d", LIMIT_VARIABLE, written, DEFAULT_LIMIT)
    return DEFAULT_LIMIT
