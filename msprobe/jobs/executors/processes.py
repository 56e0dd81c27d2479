"""Several worker processes on this machine, each a Python of its own that gets its tasks over a pipe.

``ProcessExecutor`` starts them and hands out the tasks; ``serve`` is the loop of a worker. A process without other
threads, as a command is, makes copies of itself (``copied_worker``), which have nothing to load. Any other one starts
new ones, not by ``multiprocessing``, whose ``fork`` is unsafe beside the threads of a framework and whose ``spawn``
runs the script of the caller again. Such a worker is

    python -m msprobe.jobs.executors.processes module:function

It reads a task per line from standard input and writes an answer per line to standard output: ``=`` and the text where
it is one line, as most JSON is, else the JSON of ``{"answer": text}``, or of ``{"error": text, "code": number}`` for an
MsprobeException. What the work itself prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any

from msprobe.core.errors import MEMORY_ERROR, MsprobeException
from msprobe.core.host import can_fork
from msprobe.jobs.executors.copied_worker import CopiedWorker, copy_process
from msprobe.jobs.executors.protocol import Work, load_work

_ROOT = Path(__file__).parents[3]
_PLAIN = "="
Worker = subprocess.Popen[str] | CopiedWorker
_Answers = queue.SimpleQueue[tuple[int, str | MsprobeException]]


class ProcessExecutor:
    """Runs work in worker processes, each with one task at a time."""

    def __init__(self, workers: int) -> None:
        """``workers`` is the largest number of processes."""
        self._workers = workers

    def run(self, work: str, tasks: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Call ``work`` on every task; see ``Executor.run``."""
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(tasks)):
            waiting.put(number)
        answers: _Answers = queue.SimpleQueue()
        with ExitStack() as stack:
            workers: list[Worker] = []
            for _ in range(min(self._workers, len(tasks))):
                workers.append(_new_worker(work, workers))
                stack.callback(kill_worker, workers[-1])
            for worker in workers:  # after all of them: a process with threads is not copied
                threading.Thread(target=_hand_out_tasks, args=(worker, waiting, tasks, answers), daemon=True).start()
            for _ in tasks:
                number, answer = answers.get()
                if isinstance(answer, MsprobeException):
                    raise answer
                yield number, answer


def _new_worker(work: str, others: Sequence[Worker]) -> Worker:
    loaded = load_work(work) if can_fork() else None
    if loaded is not None and can_fork():  # what was loaded may have started threads
        copies = [other for other in others if isinstance(other, CopiedWorker)]
        with contextlib.suppress(OSError):
            return copy_process(partial(serve, loaded), copies)
    return start_worker(work)


def start_worker(work: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a process that serves ``work``, with further variables of its environment."""
    command = [sys.executable, "-m", "msprobe.jobs.executors.processes", work]
    search_path = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **(variables or {}), "PYTHONPATH": os.pathsep.join(search_path)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, encoding="utf-8"
    )


def kill_worker(process: Worker) -> None:
    """End a worker at once, and wait for its end."""
    process.kill()
    with contextlib.suppress(BrokenPipeError), process:  # closes the pipes, with what was not yet sent, and waits
        pass
    process.wait()


def _hand_out_tasks(process: Worker, waiting: queue.SimpleQueue[int], tasks: Sequence[str], answers: _Answers) -> None:
    """Send tasks to one worker until there are none, and put its answers into the queue; a lost worker is an error."""
    while True:
        try:
            number = waiting.get_nowait()
        except queue.Empty:
            return
        answer = run_task(process, tasks[number])
        if answer is None:
            answers.put((number, _lost_worker_error(process)))
            return
        if "answer" not in answer:
            answers.put((number, MsprobeException(answer["code"], answer["error"])))
            return
        answers.put((number, answer["answer"]))


def run_task(process: Worker, task: str) -> dict[str, Any] | None:
    """Send a task to a worker and return its answer; None when the worker ended."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except (OSError, ValueError):
        return None
    if not line.endswith("\n"):
        return None
    return {"answer": line[1:-1]} if line.startswith(_PLAIN) else json.loads(line)


def _lost_worker_error(process: Worker) -> MsprobeException:
    status = process.wait()
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    text = f"a worker process ended with {how}; if memory ran out, use fewer workers: --executor processes:N"
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)


# ---------------------------------------------------------------- the worker


def serve(work: Work, tasks: IO[str], answers: IO[str]) -> None:
    """Read a task per line, call ``work`` on it and write the answer as a line, until the tasks end."""
    for line in tasks:
        answers.write(_line(_call_work(work, json.loads(line))) + "\n")
        answers.flush()


def _line(answer: dict[str, object]) -> str:
    """Return an answer as one line; a long text goes as it is, which takes a tenth of the time of JSON in JSON."""
    text = answer.get("answer")
    if isinstance(text, str) and text.isascii() and "\n" not in text and "\r" not in text:
        return f"{_PLAIN}{text}"
    return json.dumps(answer)


def _call_work(work: Work, task: str) -> dict[str, object]:
    try:
        return {"answer": work(task)}
    except MsprobeException as error:
        return {"error": error.error_info, "code": error.code}
    except MemoryError:
        return {"error": f"{MEMORY_ERROR}: --executor processes:N", "code": MsprobeException.INVALID_PARAM_ERROR}


def main() -> None:
    """Serve tasks of standard input; what the work prints goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which ends its workers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(load_work(sys.argv[1]), sys.stdin, answers)


if __name__ == "__main__":
    main()
