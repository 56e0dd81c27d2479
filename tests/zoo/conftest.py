"""The dumps of the zoo, each made when it is first asked for, once per test run whatever the number of workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recordings import Recordings

ROOT = Path(__file__).resolve().parents[2]
NEW_PROCESS = "new-process"
Zoo = Callable[[str, str], Path]


@pytest.fixture
def zoo(recordings: Recordings) -> Zoo:
    """Return a function that returns the dump of a variant in a mode."""
    return lambda mode, variant: recordings(record_variant, mode, variant)


def record_variant(folder: Path, mode: str, variant: str) -> None:
    """Record in this process; the run that proves that a new process gives the same values is made in one."""
    if variant != NEW_PROCESS:
        from tests.zoo.run import record  # needs the framework

        record(folder, mode, variant)
        return
    words = [sys.executable, "-m", "tests.zoo.run", str(folder), mode, "adamw"]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "2"}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
