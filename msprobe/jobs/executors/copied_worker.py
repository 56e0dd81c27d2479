"""A worker that is a copy of this process: what this one has loaded is loaded there, so it begins at once.

``core.host.can_fork`` says where a copy is safe. It never returns into what this process does: whatever happens in it,
it ends. ``compare/workers`` has copies of another kind, which exchange arrays over files.
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
from types import TracebackType
from typing import IO, NoReturn

Serve = Callable[[IO[str], IO[str]], None]
"""Reads tasks from the first file and writes answers to the second one, until the tasks end."""
_STANDARD = (0, 1, 2)
_SELDOM = 1_000_000
"""Objects after which a copy looks for cycles: a task makes some hundred thousand, which go without."""


class CopiedWorker:
    """The process, with what ``subprocess.Popen`` has that is needed of it.

    Attributes:
        stdin: takes its tasks.
        stdout: has its answers.
        returncode: as Popen has it; None until ``wait``.
    """

    def __init__(self, pid: int, tasks: int, answers: int) -> None:
        self._pid = pid
        self._waiting = threading.Lock()
        self.stdin: IO[str] = os.fdopen(tasks, "w", encoding="utf-8")
        self.stdout: IO[str] = os.fdopen(answers, encoding="utf-8")
        self.returncode: int | None = None

    def kill(self) -> None:
        """End the process at once."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait until the process has ended, and return its status; below 0, the signal that ended it."""
        with self._waiting:
            if self.returncode is None:
                try:
                    status = os.waitpid(self._pid, 0)[1]
                except ChildProcessError:  # where children are ignored, nobody is told how they end
                    status = 0
                self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def close(self) -> None:
        """Close this side of the pipes."""
        for file in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):  # the other side may be gone
                file.close()

    def __enter__(self) -> CopiedWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self.wait()


def copy_process(serve: Serve, others: Sequence[CopiedWorker]) -> CopiedWorker:
    """Return a new copy of this process that serves.

    Args:
        serve: the loop of the worker.
        others: workers that were made before; the copy closes their pipes, so that they end when this process does.

    Raises:
        OSError: a standard stream is closed, whose number a pipe would get, or there is no room for a process.
    """
    for number in _STANDARD:
        os.fstat(number)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or a full disk
            if stream is not None:
                stream.flush()  # else the copy would write the rest, too
    with contextlib.ExitStack() as on_failure:
        pipes = []
        for _ in ("tasks", "answers"):
            pipes.append(os.pipe())
            for end in pipes[-1]:
                on_failure.callback(os.close, end)
        (tasks_read, tasks_write), (answers_read, answers_write) = pipes
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # one that comes now is for this process
        try:
            pid = os.fork()
            if pid == 0:
                _work(serve, others, (tasks_read, answers_write), (tasks_write, answers_read))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        on_failure.pop_all()
    os.close(tasks_read)
    os.close(answers_write)
    return CopiedWorker(pid, tasks_write, answers_read)


def _work(serve: Serve, others: Sequence[CopiedWorker], own: tuple[int, int], foreign: tuple[int, int]) -> NoReturn:
    """Serve, and end the process without what the original has planned for its own end.

    Args:
        serve: the loop of the worker.
        others: workers of the original.
        own: where tasks are read from, and answers written to.
        foreign: the other ends.
    """
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which ends its workers
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        gc.freeze()  # what is shared with the original stays shared
        gc.set_threshold(_SELDOM)
        for end in foreign:
            os.close(end)
        for other in others:
            other.close()
        os.dup2(2, 1)  # what the work prints is no result
        with os.fdopen(own[0], encoding="utf-8") as tasks, os.fdopen(own[1], "w", encoding="utf-8") as answers:
            serve(tasks, answers)
        status = 0
    finally:
        try:
            if status:
                traceback.print_exc()
        finally:
            os._exit(status)
