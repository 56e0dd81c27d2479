"""A process that is killed leaves readable files and loses at most a moment of its records."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from msprobe.core.dump.judging import tensor_nodes
from msprobe.core.store.formats import read_tensor
from msprobe.core.store.journal import fold
from msprobe.core.store.reader import find_dumps, load_dump
from tests.crash.child import announced, check_files, start, wait_for

SLACK = 0.4
"""Seconds on top of the promised 0.1, for machines with more work than cores."""

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    "calls", [3, pytest.param(60, marks=pytest.mark.slow), pytest.param(230, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM], ids=["KILL", "TERM"])
def test_killed_while_collecting(calls: int, kind: signal.Signals, tmp_path: Path) -> None:
    process = start(tmp_path)
    lines = wait_for(process, calls)
    time.sleep(random.Random(calls).uniform(0, 0.1))
    process.send_signal(kind)
    rest, _ = process.communicate(timeout=30)
    killed = time.time()
    lines += rest.splitlines()
    journals = check_files(tmp_path)
    assert len(journals) == 1, "the step that was open has its journal"
    times = list(announced(lines))
    begun = max(index for index, (_, number) in enumerate(times) if number == 0)
    old_enough = [number for at, number in times[begun:] if at < killed - 0.1 - SLACK]
    recorded = fold(journals[0]).data
    missing = [number for number in old_enough if f"Functional.softplus.{number}.forward" not in recorded]
    assert missing == []


def test_the_reader_recovers_without_a_step_of_the_user(tmp_path: Path) -> None:
    process = start(tmp_path, calls=10**6)  # one step that never ends
    wait_for(process, 30)
    time.sleep(0.3)
    process.kill()
    process.communicate(timeout=30)
    dump = load_dump(find_dumps(tmp_path)[0])
    assert dump.recovered
    assert "Functional.softplus.20.forward" in dump.data
    assert dump.construct["Module.2.Linear.forward.20"] is None
    assert dump.stacks["Functional.softplus.20.forward"]


def test_a_process_that_ends_without_stop_leaves_whole_documents(tmp_path: Path) -> None:
    process = start(tmp_path, steps=1)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out.decode()
    assert check_files(tmp_path) == []
    assert len(load_dump(find_dumps(tmp_path)[0]).data) > 500


@pytest.mark.parametrize(
    "calls", [5, pytest.param(33, marks=pytest.mark.slow), pytest.param(120, marks=pytest.mark.slow)]
)
def test_every_tensor_file_that_is_named_is_whole(calls: int, tmp_path: Path) -> None:
    process = start(tmp_path, calls=10**6, task="tensor")
    wait_for(process, calls)
    time.sleep(random.Random(calls).uniform(0.1, 0.2))
    process.kill()
    process.communicate(timeout=30)
    (place,) = find_dumps(tmp_path)
    dump = load_dump(place)
    named = [node["data_name"] for body in dump.data.values() for node in tensor_nodes(body) if "data_name" in node]
    assert len(named) > calls
    for name in named:
        assert read_tensor(dump.tensor_folder / name).size


@pytest.mark.parametrize("task", ["statistics", pytest.param("tensor", marks=pytest.mark.slow)])
def test_interrupted_in_the_middle_of_a_step(task: str, tmp_path: Path) -> None:
    """Ctrl-C ends the training as without the tool, with one trace of the user's, and everything is published."""
    process = start(tmp_path, calls=10**6, task=task)
    lines = wait_for(process, 40)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    text = rest.decode()
    assert process.returncode in (130, -signal.SIGINT)
    assert text.rstrip().endswith("KeyboardInterrupt")
    assert text.count("Traceback") == 1
    assert "[ERROR]" not in text
    assert check_files(tmp_path) == []
    data = load_dump(find_dumps(tmp_path)[0]).data
    called = [number for _, number in announced(lines + rest.splitlines())]
    assert [number for number in called if f"Functional.softplus.{number}.backward" not in data] == []
