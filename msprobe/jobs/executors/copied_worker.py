"""A worker that is a copy of this process: what this one has loaded is loaded there, so it begins at once.

A copy has one thread, that which made it. So a process is copied only while it has no other one, of Python or of a
library: another thread could hold a lock at that moment that nobody in the copy would ever release.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn

_THREADS = Path("/proc/self/task")
Serve = Callable[[IO[str], IO[str]], None]
"""Reads tasks from the first file and writes answers to the second one, until the tasks end."""


def can_fork() -> bool:
    """Return whether a copy of this process is safe: no other thread is in it (Linux says so)."""
    try:
        return sys.platform == "linux" and sum(1 for _ in _THREADS.iterdir()) == 1
    except OSError:
        return False


class ForkedWorker:
    """The process, with what ``subprocess.Popen`` has that is needed of it.

    Attributes:
        stdin: takes its tasks.
        stdout: has its answers.
        returncode: as Popen has it; None until ``wait``.
    """

    def __init__(self, pid: int, tasks: int, answers: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self.stdin: IO[str] = os.fdopen(tasks, "w", encoding="utf-8")
        self.stdout: IO[str] = os.fdopen(answers, encoding="utf-8")
        self.returncode: int | None = None

    def kill(self) -> None:
        """End the process at once."""
        with self._lock:
            if self.returncode is None:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait until the process has ended, and return its status; below 0, the signal that ended it."""
        with self._lock:
            if self.returncode is None:
                _, status = os.waitpid(self._pid, 0)
                self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def close(self) -> None:
        """Close this side of the pipes."""
        for file in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):  # the other side may be gone
                file.close()

    def __enter__(self) -> ForkedWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self.wait()


def fork_worker(serve: Serve, others: Sequence[ForkedWorker]) -> ForkedWorker:
    """Return a new copy of this process that serves.

    Args:
        serve: the loop of the worker.
        others: workers that were made before; the copy closes their pipes, so that they end when this process does.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # else the copy would write the rest, too
    tasks_read, tasks_write = os.pipe()
    answers_read, answers_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(tasks_write)
        os.close(answers_read)
        for other in others:
            other.close()
        _work(serve, tasks_read, answers_write)
    os.close(tasks_read)
    os.close(answers_write)
    return ForkedWorker(pid, tasks_write, answers_read)


def _work(serve: Serve, tasks: int, answers: int) -> NoReturn:
    """Serve, and end the process without what the original has planned for its own end."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which ends its workers
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        gc.disable()  # it would look at all that the original has, and unshare it; records have no cycles
        os.dup2(2, 1)  # what the work prints is no result
        with open(tasks, encoding="utf-8") as given, open(answers, "w", encoding="utf-8") as told:
            serve(given, told)
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)
