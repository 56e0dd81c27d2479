"""Workers that are copies of a process with one thread: the same answers, nothing printed twice, no orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rules.tree import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how many threads a process has")
BEGIN = """
import os, sys, threading, time
from msprobe.core.errors import MsprobeException
from msprobe.jobs.executors import processes
from msprobe.core.host import can_fork

LOADED = os.getpid()


def answer(task):
    print("from the work")
    if task == "fails":
        raise MsprobeException(3, "a reason")
    if task == "dies":
        os._exit(7)
    if task == "waits":
        time.sleep(60)
    return f"{task} {LOADED} {os.getpid()} \\u4e2d"


sys.modules["work"] = sys.modules["__main__"]
run = processes.ProcessExecutor(2).run
"""


def ran(tmp_path: Path, program: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(BEGIN + program, encoding="utf-8")
    return subprocess.run(
        [sys.executable, script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_copies_answer_with_what_is_loaded(tmp_path: Path) -> None:
    program = (
        "sys.stdout.write('once ')\n"
        "for number, text in sorted(run('work:answer', list('abc'))):\n    print(number, text)"
    )
    done = ran(tmp_path, program)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stdout.count("once") == 1, done.stderr
    words = [line.removeprefix("once ").split() for line in lines]
    assert [word[:2] for word in words] == [["0", "a"], ["1", "b"], ["2", "c"]]
    assert len({word[2] for word in words}) == 1  # loaded before the copies were made
    assert words[0][2] not in {word[3] for word in words}
    assert done.stderr.count("from the work") == 3 and "from the work" not in done.stdout


def test_a_process_with_threads_is_not_copied(tmp_path: Path) -> None:
    program = (
        "print(can_fork())\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
        "print(can_fork())\nprint(type(processes._new_worker('msprobe.check.job:read_text', [])).__name__)"
    )
    assert ran(tmp_path, program).stdout.split() == ["True", "False", "Popen"]


@pytest.mark.parametrize(("task", "told"), [("fails", "a reason"), ("dies", "ended with status 7")])
def test_errors_are_raised_here(tmp_path: Path, task: str, told: str) -> None:
    program = (
        f"try:\n    list(run('work:answer', ['a', {task!r}]))\n"
        "except MsprobeException as error:\n    print(error.error_info)"
    )
    done = ran(tmp_path, program)
    assert told in done.stdout, done.stderr


def test_no_copy_outlives_its_original(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(BEGIN + "list(run('work:answer', ['waits', 'waits', 'a']))", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, script], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as process:
        children = wait_for_children(process.pid)
        process.send_signal(signal.SIGINT)
    assert len(children) == 2
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def wait_for_children(pid: int) -> list[str]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    for _ in range(400):
        children = path.read_text().split()
        if len(children) == 2:
            time.sleep(0.2)
            return children
        time.sleep(0.05)
    raise AssertionError("no workers")
