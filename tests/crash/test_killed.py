"""A process that is killed leaves readable files and loses at most a moment of its records."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from msprobe.core.dump.tasks.judged_recorder import tensor_nodes
from msprobe.core.store.journal import fold
from msprobe.core.store.layout import DEBUG
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.core.store.tensor_reader import read_tensor
from tests.crash.child import announced, check_files, lateness, start, wait_for
from tests.forked import ForkedProcess

PROMISED = 0.1
"""Seconds before the end whose records may be lost."""
ATTEMPTS = 3
"""A machine that stands still for a moment, as one with more work than cores does, looks like a loss; a loss that the
tool causes shows each time."""

pytestmark = pytest.mark.torch


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize(
    "calls", [3, pytest.param(60, marks=pytest.mark.slow), pytest.param(230, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM], ids=["KILL", "TERM"])
def test_killed_while_collecting(calls: int, kind: signal.Signals, tmp_path: Path) -> None:
    lost = [0]
    for attempt in range(ATTEMPTS):
        lost = lost_calls(calls, kind, tmp_path / str(attempt))
        if not lost:
            break
    assert lost == []


def lost_calls(calls: int, kind: signal.Signals, folder: Path) -> list[int]:
    """Kill a process that has made this many calls; return those that had to be recorded and are not."""
    folder.mkdir()
    process = start(folder, words=["beats"])
    lines = wait_for(process, calls)
    time.sleep(random.Random(calls).uniform(0, 0.1))
    old_enough = end(process, kind, lines)
    journals = check_files(folder)
    assert len(journals) <= 1, "the step that was open has its journal; between two steps there is none"
    recorded = fold(journals[0]).data if journals else load_dump(find_dumps(folder)[-1]).data
    return [number for number in old_enough if f"Functional.softplus.{number}.forward" not in recorded]


def end(process: ForkedProcess, kind: signal.Signals, lines: list[bytes]) -> list[int]:
    """Send the signal; the calls of the last step that had ended long enough before it to be recorded for sure.

    On a machine with more work than cores that is later than promised by as much as any thread waits there.
    """
    killed = time.time()
    process.send_signal(kind)
    rest, _ = process.communicate(timeout=30)
    lines += rest.splitlines()
    times = list(announced(lines))
    begun = max(index for index, (_, number) in enumerate(times) if number == 0)
    bound = killed - PROMISED - 2 * lateness(lines, killed)
    return [number for at, number in times[begun:] if at < bound]


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("level", ["L1", pytest.param("mix", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("task", "words"),
    [
        pytest.param("statistics", ["points"], id="at once", marks=pytest.mark.slow),
        pytest.param("statistics", ["points", "async"], id="async", marks=pytest.mark.slow),
        pytest.param("tensor", ["points", "async"], id="async files"),
    ],
)
def test_saved_points_and_what_waits_in_the_background_survive(
    level: str, task: str, words: list[str], tmp_path: Path
) -> None:
    """One step that never ends: there is no debug.json yet, and the reader finds the points under its name.

    Of what waits for its file or checksum, those alone are missing.
    """
    process = start(tmp_path, level, calls=10**6, task=task, words=["beats", *words])
    lines = wait_for(process, 300, seconds=3.0)  # long enough for calls that are old by any lateness
    old_enough = end(process, signal.SIGKILL, lines)
    assert len(old_enough) > 20
    (place,) = find_dumps(tmp_path)
    assert not place.document.with_name(DEBUG).exists()
    dump = load_dump(place)
    points = load_dump(find_dumps(place.document.with_name(DEBUG))[0]).data
    for number in old_enough:
        assert f"Functional.softplus.{number}.backward" in dump.data
        (seen,) = tensor_nodes(dump.data[f"Functional.softplus.{number}.forward"]["input_args"])
        assert points[f"point.{number}.debug"]["Max"] == seen["Max"]
        assert points[f"point_grad.{number}.debug"]["shape"] == [4, 1]
    for name in (node["data_name"] for node in tensor_nodes(list(points.values())) if "data_name" in node):
        assert read_tensor(dump.tensor_folder / name).size == 4


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


@pytest.mark.matrix("wide", sample=2)
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
