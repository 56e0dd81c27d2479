"""Several processes on this machine, each started afresh and fed over a pipe.

Neither ``fork`` (unsafe beside the threads of a framework) nor ``spawn`` (runs the script of the caller again) is used:
a worker is ``python -m msprobe.jobs.executors.processes`` and knows only what it is sent.

The other end of ``processes``: reads a task per line, writes an answer per line.

    python -m msprobe.jobs.executors.processes module:function

The first line of an answer's JSON is ``{"answer": text}``, or ``{"error": text, "code": number}`` for an error of ours.
Whatever else the work prints goes to the standard error stream.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from msprobe.core.errors import MEMORY_ERROR, MsprobeException
from msprobe.jobs.executors.protocol import Work, work_named

_ROOT = Path(__file__).parents[3]
_Answers = queue.SimpleQueue[tuple[int, str | MsprobeException]]


class ProcessExecutor:
    """``workers`` processes at most, each with one task at a time."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run(self, work: str, tasks: Sequence[str]) -> Iterator[tuple[int, str]]:
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(tasks)):
            waiting.put(number)
        answers: _Answers = queue.SimpleQueue()
        with ExitStack() as stack:
            for _ in range(min(self._workers, len(tasks))):
                process = _started(work)
                stack.callback(_end, process)
                threading.Thread(target=_feed, args=(process, waiting, tasks, answers), daemon=True).start()
            for _ in tasks:
                number, answer = answers.get()
                if isinstance(answer, MsprobeException):
                    raise answer
                yield number, answer


def _started(work: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "msprobe.jobs.executors.processes", work]
    places = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, encoding="utf-8"
    )


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    with process:  # closes the pipes and waits
        pass


def _feed(
    process: subprocess.Popen[str], waiting: queue.SimpleQueue[int], tasks: Sequence[str], answers: _Answers
) -> None:
    """Hand out tasks until there are none; a lost worker is an answer too."""
    while True:
        try:
            number = waiting.get_nowait()
        except queue.Empty:
            return
        found = _asked(process, tasks[number])
        if found is None:
            answers.put((number, _lost(process)))
            return
        if "answer" not in found:
            answers.put((number, MsprobeException(found["code"], found["error"])))
            return
        answers.put((number, found["answer"]))


def _asked(process: subprocess.Popen[str], task: str) -> dict[str, Any] | None:
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except (OSError, ValueError):
        return None
    return json.loads(line) if line.endswith("\n") else None


def _lost(process: subprocess.Popen[str]) -> MsprobeException:
    status = process.wait()
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    text = f"a worker process ended with {how}; if memory ran out, use fewer workers: --executor processes:N"
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)


def serve(work: Work, tasks: IO[str], answers: IO[str]) -> None:
    """Answer every line of ``tasks`` until there are no more."""
    for line in tasks:
        answers.write(json.dumps(_answer(work, json.loads(line))) + "\n")
        answers.flush()


def _answer(work: Work, task: str) -> dict[str, object]:
    try:
        return {"answer": work(task)}
    except MsprobeException as error:
        return {"error": error.error_info, "code": error.code}
    except MemoryError:
        return {"error": f"{MEMORY_ERROR}: --executor processes:N", "code": MsprobeException.INVALID_PARAM_ERROR}


def main() -> None:
    """Serve the lines of the standard streams."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(work_named(sys.argv[1]), sys.stdin, answers)


if __name__ == "__main__":
    main()
