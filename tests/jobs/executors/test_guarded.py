"""Work that hangs or ends its process is lost alone."""

from __future__ import annotations

import os
import signal
import time

import pytest

from msprobe.core.errors import MsprobeException
from msprobe.jobs.executors.guarded import GuardedExecutor, Lost

pytestmark = pytest.mark.slow

WORK = "tests.jobs.executors.test_guarded:work"


def work(task: str) -> str:
    """Do what a task says."""
    if task == "hang":
        time.sleep(600)
    if task == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if task == "leave":
        os._exit(3)
    if task == "refuse":
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, "a wrong task")
    return task.upper()


@pytest.mark.parametrize("workers", [1, 3])
def test_every_task_has_an_answer_or_a_reason(workers: int) -> None:
    tasks = ["a", "hang", "b", "crash", "leave", "c", "d"]
    executor = GuardedExecutor(workers, seconds=1.0, start_seconds=5.0)
    answers = dict(executor.run(WORK, tasks))
    assert [answers[tasks.index(task)] for task in "abcd"] == ["A", "B", "C", "D"]
    assert answers[1] == Lost("it took more than 1 seconds")
    assert answers[3] == Lost("it ended its process with signal SIGSEGV")
    assert answers[4] == Lost("it ended its process with status 3")


def test_what_the_work_refuses_ends_it() -> None:
    with pytest.raises(MsprobeException, match="a wrong task"):
        list(GuardedExecutor(1, seconds=5.0).run(WORK, ["refuse"]))


def test_no_worker_is_left_when_the_caller_stops() -> None:
    answers = GuardedExecutor(2, seconds=60.0).run(WORK, ["a", "hang", "hang"])
    assert next(answers) == (0, "A")
    begin = time.monotonic()
    answers.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begin < 20.0
