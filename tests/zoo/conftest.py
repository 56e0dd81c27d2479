"""The dumps of the zoo, made once per test run whatever the number of workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from tests import forked
from tests.recordings import Recordings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def zoo(recordings: Recordings) -> Path:
    """The folder with one dump per job."""
    return recordings(record_jobs)


def record_jobs(out: Path) -> None:
    """Three processes at a time: two share the jobs, the third is the proof that a new process gives the same values.

    The third is started afresh, since a forked process has the number of threads of the one it comes from.
    """
    from tests.zoo.jobs import JOBS, NEW_PROCESS  # needs the framework

    mix, *others = JOBS.values()
    shares = {"mix": mix, "others": list(chain(*others)), "new": NEW_PROCESS}
    for name, jobs in shares.items():
        (out / f"{name}.json").write_text(json.dumps(jobs), encoding="utf-8")
    environment = {**os.environ, "MSPROBE_LOG_LEVEL": "4"}
    new = subprocess.Popen(
        [sys.executable, *_words(out, "new")],
        cwd=ROOT,
        env={**environment, "OMP_NUM_THREADS": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    running = [*(forked.start(_words(out, name), cwd=ROOT, env=environment) for name in ("mix", "others")), new]
    ends = [(process.communicate()[0], process.returncode) for process in running]
    assert not any(status for _, status in ends), next(text.decode() for text, status in ends if status)


def _words(out: Path, name: str) -> list[str]:
    return ["-m", "tests.zoo.run", str(out), str(out / f"{name}.json")]
