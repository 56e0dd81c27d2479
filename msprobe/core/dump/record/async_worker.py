"""``async_dump``: a worker thread makes checksums and tensor files, from a copy taken when the call was observed.

    training thread:   describe, copy, put ───────────────▶ [ bytes waiting <= limit ] ──▶ worker: checksum, file

Statistics stay on the training thread: the one pass that makes them costs no more than the copy that would replace it
(and on a device nothing waits for them anyway). The bytes of waiting copies are counted; beyond the limit the training
thread waits for the worker, so memory is bounded however slow the disk is. Results equal the synchronous ones: the same
code runs on the copy. A record is written whole only when its last job is done.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from msprobe.core.backend.protocols import TensorOps
from msprobe.core.capture.describe import Node
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.dump.record.tensor_node import MeasuredTensors
from msprobe.core.interruption import let_through, start_thread
from msprobe.core.log import logger
from msprobe.core.store.record_walk import NO_DATA

LIMIT_VARIABLE = "MSPROBE_ASYNC_BYTES"
DEFAULT_LIMIT = 1 << 30

Job = Callable[[], None]

_POLL_SECONDS = 0.001  # how often a training thread looks whether the queue has room


class AsyncWorker:
    """One worker thread with a queue bounded in bytes.

    Args:
        limit: bytes that may wait; a single job may be larger when nothing else waits.

    Attributes:
        jobs_done: the number of jobs done so far.
    """

    def __init__(self, limit: int) -> None:
        self.errors = ErrorLog(None)
        self._limit = limit
        self._lock = threading.Lock()  # taken and given back by C alone: no interrupt leaves it held
        self._jobs: deque[tuple[Job, int, SimpleQueue[None] | None]] = deque()
        self._added: SimpleQueue[None] = SimpleQueue()
        self._bytes = 0
        self._running = 0
        self.jobs_done = 0
        self._is_working = False
        self._abandoned = False

    @property
    def outstanding(self) -> bool:
        """Whether a job is not done yet."""
        with self._lock:
            return self._running + len(self._jobs) > 0

    @property
    def jobs_put(self) -> int:
        """The number of jobs put so far."""
        with self._lock:
            return self.jobs_done + self._running + len(self._jobs)

    def put(self, job: Job, size: int) -> None:
        """Queue a job that keeps ``size`` bytes alive; wait while the queue is full."""
        if self._abandoned:
            return
        if not self._start_worker():
            self.run(job)
            return
        if not self._has_room(size):
            self._added.put(None)  # an interrupted ``put`` may not have woken the worker
        while not self._has_room(size):
            time.sleep(_POLL_SECONDS)
        self._append(job, size)

    def drain(self) -> None:
        """Return when every job put so far is done. Jobs put meanwhile are not waited for."""
        if self._abandoned or not self.outstanding:
            return
        done: SimpleQueue[None] = SimpleQueue()
        self._append(lambda: None, 0, done)
        done.get()

    def abandon(self) -> None:
        """Drop every job: in a forked child the thread is gone, and its lock may be held for ever."""
        self._abandoned = True
        self._lock, self._jobs, self._running, self.jobs_done = threading.Lock(), deque(), 0, 0

    @never_raises
    def run(self, job: Job) -> None:
        """Run one job; an error ends that job only."""
        job()

    def _has_room(self, size: int) -> bool:
        return not self._bytes or self._bytes + size <= self._limit

    def _append(self, job: Job, size: int, done: SimpleQueue[None] | None = None) -> None:
        """Queue a job; what waits for it gets an entry in ``done``."""
        with self._lock:
            self._jobs.append((job, size, done))
            self._bytes += size
        self._added.put(None)

    def _start_worker(self) -> bool:
        if not self._is_working:
            try:
                start_thread("msprobe-async-dump", self._work)
            except RuntimeError as error:  # the interpreter is shutting down: no new threads
                let_through(error)
                return False
        return True

    def _work(self) -> None:
        with self._lock:
            if self._is_working:  # more jobs were put before the first thread began
                return
            self._is_working = True
        while True:
            self._added.get()
            while self._jobs:
                with self._lock:
                    job, size, done = self._jobs.popleft()
                    self._running = 1
                self.run(job)
                del job  # before the bytes count as free
                with self._lock:
                    self._bytes -= size
                    self._running = 0
                    self.jobs_done += 1
                if done is not None:
                    done.put(None)


class AsyncTensors:
    """Make the nodes of tensors; checksums and files are left to the worker (implements ``TensorNodes``).

    Args:
        measured: measures the statistics at once, and the rest when the worker asks for it.
        worker: the worker of the session.
        errors: the error log of the step.
    """

    def __init__(self, measured: MeasuredTensors[Any], worker: AsyncWorker, errors: ErrorLog) -> None:
        self.errors = errors
        self._measured = measured
        self._worker = worker

    @property
    def folder(self) -> Path | None:
        """The folder of tensor files; None when no tensors are kept."""
        return self._measured.folder

    def leaf(self, tensor: Any, save_as: str, around: tuple[int, ...] = ()) -> Node:
        """Return the node of ``tensor``; its checksum and the name of its file are added later."""
        measured = self._measured
        node = measured.describe(tensor)
        if NO_DATA in node and measured.await_values(tensor, save_as, node):
            return node
        if not save_as and not measured.has_checksums:
            return node
        snapshot = measured.ops.snapshot(tensor)
        if snapshot is None:  # a tensor without data: nothing to save, and its checksum is None at once
            measured.complete(tensor, "", node)
            return node
        copy, size = snapshot
        self._worker.put(lambda: self.complete(save_as, copy, node), size)
        return node

    def settle(self) -> None:
        """Return when every node made so far is complete."""
        self._worker.drain()
        self._measured.settle()

    def move(self, folder: Path) -> None:
        """Save tensors into ``folder`` from now on, if any are saved."""
        self._measured.move(folder)

    @never_raises
    def complete(self, save_as: str, copy: Callable[[], Any], node: dict[str, Any]) -> None:
        """Complete the node of a copied tensor; this runs in the worker."""
        self._measured.complete(copy(), save_as, node)


class SettleBarrier:
    """What the records of a step wait for: statistics on their way from a device, jobs of the worker, and tensors that
    are still being received, until the step ends.

    Implements ``PendingJobs`` of the sink. Without a worker there are no jobs.
    """

    def __init__(self, ops: TensorOps[Any], worker: AsyncWorker | None) -> None:
        self._ops = ops
        self._worker = worker
        self._done = 0

    @property
    def outstanding(self) -> bool:
        """Whether a record may still be incomplete."""
        return (self._worker is not None and self._worker.outstanding) or self._ops.outstanding or self._is_awaiting

    @property
    def put(self) -> int:
        """The number of jobs put so far; a tensor whose values the program awaits is a job."""
        arrivals = self._ops.arrivals
        return (0 if self._worker is None else self._worker.jobs_put) + (0 if arrivals is None else arrivals.put)

    @property
    def done(self) -> int:
        """The number of jobs done so far. Values arrive in any order: where some were awaited it is the number of the
        last moment at which nothing was outstanding.
        """
        if self._ops.arrivals is None or not self._ops.arrivals.put:
            return 0 if self._worker is None else self._worker.jobs_done
        put = self.put  # first: another thread goes on putting
        if not self._is_awaiting and not (self._worker is not None and self._worker.outstanding):
            self._done = put
        return self._done

    @property
    def _is_awaiting(self) -> bool:
        return self._ops.arrivals is not None and self._ops.arrivals.outstanding

    def settle_statistics(self) -> None:
        """Return when the statistics have arrived; jobs of the worker are not waited for."""
        self._ops.settle()

    def settle(self) -> None:
        """Return when the statistics have arrived and every job put so far is done."""
        if self._worker is not None:
            self._worker.drain()
        self._ops.settle()


def queue_limit() -> int:
    """Return how many bytes may wait, from the environment variable ``MSPROBE_ASYNC_BYTES``, or 1 GiB."""
    written = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not written:
        return DEFAULT_LIMIT
    if written.isdigit() and int(written) > 0:
        return int(written)
    logger.warning("%s=%r is not a positive number of bytes; using %d", LIMIT_VARIABLE, written, DEFAULT_LIMIT)
    return DEFAULT_LIMIT
