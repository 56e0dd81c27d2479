"""The dumps of the zoo, made once per test run whatever the number of workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # seconds one worker waits for the dumps of another


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with one dump per job."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # the workers of one test run share it
    out, outcome = base / "zoo", base / "zoo-outcome.txt"
    with suppress(FileExistsError):
        out.mkdir()
        outcome.write_text(_record(out), encoding="utf-8")
    text = next(_written(outcome), "no dumps came from the worker that makes them")
    assert text == "done", text
    return out


def _record(out: Path) -> str:
    """Two processes at a time: the second is the proof that a new process gives the same values."""
    from tests.zoo.jobs import FIRST_PROCESS, SECOND_PROCESS  # needs the framework

    running = [_start(out, FIRST_PROCESS, threads=1), _start(out, SECOND_PROCESS, threads=2)]
    ends = [(process.communicate()[1], process.returncode) for process in running]
    return next((errors for errors, status in ends if status), "done")


def _start(out: Path, jobs: list[dict[str, Any]], threads: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MSPROBE_LOG_LEVEL": "4"}
    (out / f"jobs{threads}.json").write_text(json.dumps(jobs), encoding="utf-8")
    with (out / f"jobs{threads}.json").open(encoding="utf-8") as listed:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.zoo.run", str(out)],
            cwd=ROOT,
            env=environment,
            stdin=listed,
            stderr=subprocess.PIPE,
            text=True,
        )


def _written(outcome: Path) -> Iterator[str]:
    """The text of a file as soon as there is one; nothing when it never comes."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        text = outcome.read_text(encoding="utf-8") if outcome.exists() else ""
        if text:
            yield text
        time.sleep(0.1)
