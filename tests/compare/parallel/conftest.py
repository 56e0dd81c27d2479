"""Trainings on one rank and on two, each run once for all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECONDS = 240
Trained = Callable[..., Path]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """``trained(kind, size, fault)``: the dump of that training."""
    root = tmp_path_factory.mktemp("trained")
    known: dict[str, Path] = {}

    def dump(kind: str, size: int, fault: str = "") -> Path:
        name = f"{kind}{size}{fault}"
        if name not in known:
            known[name] = root / name
            _run(kind, size, known[name], fault)
        return known[name]

    return dump


def _run(kind: str, size: int, folder: Path, fault: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.compare.parallel.job", kind, str(rank), str(size), str(folder), fault],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        logs = [process.communicate(timeout=SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0] * size, "\n".join(logs)
