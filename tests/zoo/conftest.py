"""The dumps of the zoo, made once per test run whatever the number of workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import Recordings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def zoo(recordings: Recordings) -> Path:
    """The folder with one dump per job."""
    return recordings(record_jobs)


def record_jobs(out: Path) -> None:
    """Two processes at a time: the second is the proof that a new process gives the same values."""
    from tests.zoo.jobs import FIRST_PROCESS, SECOND_PROCESS  # needs the framework

    running = [_start(out, FIRST_PROCESS, threads=1), _start(out, SECOND_PROCESS, threads=2)]
    ends = [(process.communicate()[1], process.returncode) for process in running]
    assert not any(status for _, status in ends), next(errors for errors, status in ends if status)


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
