"""A training that is killed at a random moment, also where a step begins or ends: what it left is whole."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import msprobe
from msprobe.core.dump.tasks.judged_recorder import tensor_nodes
from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.core.store.tensor_reader import read_tensor
from tests.crash.child import announced, check_files, lateness, start, wait_for
from tests.matrices import matrix_params

PROMISED = 0.1
"""Seconds before the end whose records may be lost."""
CALLS = 8
"""Few calls per step: many moments lie at its beginning or its end."""
LONGEST = 1.5
SIGNALS, TASKS = (signal.SIGKILL, signal.SIGTERM), ("statistics", "tensor")

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same training, not killed, for each task."""
    runs = {}
    for task in TASKS:
        runs[task] = tmp_path_factory.mktemp(task)
        out, _ = start(runs[task], steps=2, calls=CALLS, task=task).communicate(timeout=60)
        assert out.endswith(b"finished\n")
    return runs


@pytest.mark.parametrize("number", matrix_params("kills", range(100), {"0", "1"}))
def test_what_is_left_is_whole(number: int, whole_runs: dict[str, Path], tmp_path: Path) -> None:
    kind, task = SIGNALS[number % 2], TASKS[number // 2 % 2]
    process = start(tmp_path, steps=10**6, calls=CALLS, task=task, words=["beats"])
    lines = wait_for(process, 1)
    time.sleep(random.Random(number).uniform(0, LONGEST))
    killed = time.time()
    process.send_signal(kind)
    rest, _ = process.communicate(timeout=30)
    lines += rest.splitlines()
    check_files(tmp_path)
    dumps = {dump.place.step: dump for dump in map(load_dump, find_dumps(tmp_path))}
    read_tensors(tmp_path, list(dumps.values()))
    calls = list(numbered(lines))
    bound = killed - PROMISED - 2 * lateness(lines, killed)
    promised = [(step, call) for at, step, call in calls if at < bound]
    lost = [(step, call) for step, call in promised if not is_recorded(dumps[step], call)]
    assert lost == []
    result = msprobe.compare(tmp_path, whole_runs[task])
    assert result.verdict == ("same" if promised else result.verdict)
    assert result.verdict != "diverged", result.summary.first_divergence


@pytest.mark.parametrize("number", matrix_params("kills", range(100), {"0", "1"}))
def test_what_the_ring_has_written_is_whole(number: int, whole_runs: dict[str, Path], tmp_path: Path) -> None:
    """Of the steps in memory nothing is left; each that is named holds every call, or the training was killed in it."""
    process = start(tmp_path, steps=10**6, calls=CALLS, words=["beats", "ring"])
    wait_for(process, 4 * CALLS)
    time.sleep(random.Random(number).uniform(0, LONGEST))
    process.send_signal(SIGNALS[number % 2])
    process.communicate(timeout=30)
    check_files(tmp_path)
    dumps = [load_dump(place) for place in find_dumps(tmp_path)]
    assert dumps
    for dump in dumps:
        assert is_recorded(dump, CALLS - 1) or dump.recovered
    assert msprobe.compare(tmp_path, whole_runs["statistics"]).verdict != "diverged"


def numbered(lines: list[bytes]) -> Iterator[tuple[float, int, int]]:
    """Yield time, step and number of the announced calls."""
    step = -1
    for at, call in announced(lines):
        step += call == 0
        yield at, step, call


def is_recorded(dump: Dump, call: int) -> bool:
    return f"Functional.softplus.{call}.backward" in dump.data


def read_tensors(root: Path, dumps: list[Dump]) -> None:
    """Read every tensor file below ``root``, and every one that a record names."""
    for path in root.rglob("*.pt"):
        assert read_tensor(path).size
    for dump in dumps:
        nodes = tensor_nodes(list(dump.data.values()))
        for name in (node["data_name"] for node in nodes if "data_name" in node):
            assert (dump.tensor_folder / name).is_file()
