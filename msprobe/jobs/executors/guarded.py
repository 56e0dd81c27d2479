"""Worker processes for work that may hang or end the process: such a task is lost, and the others go on.

The workers are those of ``processes``. One that does not answer in time is killed; whatever its task was, it gets a
``Lost`` with the reason, and a new worker takes the next one.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from msprobe.core.errors import MsprobeException
from msprobe.core.host import cpu_count
from msprobe.jobs.executors.processes import kill_worker, run_task, start_worker

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
START_SECONDS = 120.0
"""What the first task of a worker may take beside its own time: it imports a framework."""


class Lost(NamedTuple):
    """A task that has no answer, and why."""

    reason: str


class _Limits(NamedTuple):
    """Seconds that a task may take, and what the first one of a process may take beside."""

    task: float
    start: float


_Answers = queue.SimpleQueue[tuple[int, str | Lost | MsprobeException]]


class GuardedExecutor:
    """Runs work in worker processes, with a time limit for each task."""

    def __init__(self, workers: int, seconds: float, start_seconds: float = START_SECONDS) -> None:
        """Take the largest number of processes, which share the processors of the machine, and the limits of time.

        Args:
            workers: the number of processes.
            seconds: what a task may take.
            start_seconds: what the first task of each process may take beside that.
        """
        self._workers, self._limits = workers, _Limits(seconds, start_seconds)
        self._variables = {name: str(max(1, cpu_count() // workers)) for name in _THREADS} if workers > 1 else {}

    def run(self, work: str, tasks: Sequence[str]) -> Iterator[tuple[int, str | Lost]]:
        """Call ``work`` (``module:function``) on every task; yield (number of the task, answer) in the order they end.

        Raises:
            MsprobeException: the work raised it.
        """
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(tasks)):
            waiting.put(number)
        answers: _Answers = queue.SimpleQueue()
        with ExitStack() as stack:
            for _ in range(min(self._workers, len(tasks))):
                worker = _Worker(work, self._limits, self._variables)
                stack.callback(worker.close)
                threading.Thread(target=worker.hand_out, args=(waiting, tasks, answers), daemon=True).start()
            for _ in tasks:
                number, answer = answers.get()
                if isinstance(answer, MsprobeException):
                    raise answer
                yield number, answer


class _Worker:
    """A worker process, and the one after it when it is lost."""

    def __init__(self, work: str, limits: _Limits, variables: Mapping[str, str]) -> None:
        self._work, self._limits, self._variables = work, limits, variables
        self._process: subprocess.Popen[str] | None = None
        self._closed, self._lock = False, threading.Lock()

    def hand_out(self, waiting: queue.SimpleQueue[int], tasks: Sequence[str], answers: _Answers) -> None:
        """Send tasks until there are none."""
        while not self._closed:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            answers.put((number, self._answer(tasks[number])))

    def _answer(self, task: str) -> str | Lost | MsprobeException:
        with self._lock:
            if self._closed:
                return Lost("the command has ended")
            fresh = self._process is None
            process = self._process or start_worker(self._work, self._variables)
            self._process = process
        late = threading.Event()
        allowed = self._limits.task + (self._limits.start if fresh else 0.0)
        timer = threading.Timer(allowed, _stop, (process, late))
        timer.start()
        answer = run_task(process, task)
        timer.cancel()
        if answer is None:
            self._process = None
            kill_worker(process)
            return Lost(f"it took more than {self._limits.task:g} seconds" if late.is_set() else _ending(process))
        if "answer" not in answer:
            return MsprobeException(answer["code"], answer["error"])
        return str(answer["answer"])

    def close(self) -> None:
        """End the process at once."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                kill_worker(self._process)


def _stop(process: subprocess.Popen[str], late: threading.Event) -> None:
    late.set()
    process.kill()


def _ending(process: subprocess.Popen[str]) -> str:
    status = process.wait()
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    return f"it ended its process with {how}"
