"""Features of torch make what they make without a recording (``used_features.py``), whatever is recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.matrices import matrix_params
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow]
PROGRAM = Path(__file__).with_name("used_features.py")
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "statistics": {"task": "statistics", "level": "mix"},
    "memory": {"task": "statistics", "level": "mix", "async_dump": True, "statistics": {"memory": True}},
    "checksums": {"task": "statistics", "level": "L1", "statistics": {"summary_mode": "md5"}},
    "tensors": {"task": "tensor", "level": "mix"},
    "modules": {"task": "statistics", "level": "L0"},
    "structure": {"task": "structure", "level": "mix"},
    "ring": {"task": "statistics", "level": "mix", "ring": {"steps": 2}},
    "overflow": {"task": "overflow_check", "level": "mix"},
    "nothing": {"task": "acc_check", "level": "L1"},
    "free_benchmark": {"task": "free_benchmark", "level": "L1"},
}


def lines_of(words: list[str], folder: Path) -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MSPROBE_LOG_LEVEL": "4"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def alone(folder: Path) -> None:
    (folder / "lines.txt").write_text("\n".join(lines_of([sys.executable, str(PROGRAM)], folder)), encoding="utf-8")


@pytest.mark.parametrize("name", matrix_params("programs", CONFIGURATIONS, {"statistics"}))
def test_a_recording_changes_nothing(name: str, recordings: Recordings, tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text(json.dumps({**CONFIGURATIONS[name], "dump_path": f"{tmp_path}/dump"}), encoding="utf-8")
    words = [sys.executable, "-m", "msprobe", "run", "-c", str(config), "--", sys.executable, str(PROGRAM)]
    expected = (recordings(alone) / "lines.txt").read_text(encoding="utf-8").splitlines()
    found = lines_of(words, tmp_path)
    assert found == expected


def test_each_feature_works_alone(recordings: Recordings) -> None:
    lines = (recordings(alone) / "lines.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 20
    assert not [line for line in lines if "Error" in line and not line.startswith("errors ")]
