"""Faults around a monitored training: a full disk, a folder that goes away, a process that is killed."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.test_disk import small_disk as small_disk
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch
CONFIG = {"wg_distribution": True, "param_distribution": True, "step_count_per_record": 1000}


def start(folder: Path, steps: int, **config: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MONITOR_OUTPUT_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-u", "-m", "tests.crash.monitored", str(steps), json.dumps({**CONFIG, **config})]
    return subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_training_goes_on(small_disk: Path) -> None:
    process = start(small_disk / "out", 400)
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    assert "the training has ended" in text
    assert text.count("not written") == 1
    assert "Traceback" not in text
    assert any(complete_rows(path.read_text()) for path in small_disk.rglob("*.csv"))


@pytest.mark.slow
def test_a_folder_that_goes_away_is_made_again(tmp_path: Path) -> None:
    process = start(tmp_path / "out", 60)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 10 "):
            shutil.rmtree(tmp_path / "out")
            break
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    assert "Traceback" not in text
    (file,) = (tmp_path / "out").rglob("grad_reduced_*.csv")
    assert {"40", "59"} <= {row["step"] for row in csv.DictReader(io.StringIO(file.read_text()))}


def test_rows_of_finished_steps_survive_a_kill(tmp_path: Path) -> None:
    process = start(tmp_path / "out", 100_000)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 30 "):
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    files = list((tmp_path / "out").rglob("*.csv"))
    assert len(files) == 4
    for file in files:
        steps = [int(row["step"]) for row in complete_rows(file.read_text())]
        assert all(steps.count(step) == 40 for step in range(31))


def complete_rows(text: str) -> list[dict[str, str]]:
    """Return the rows up to the last end of a line, because the last one may be cut off."""
    whole = text[: text.rindex("\n") + 1] if "\n" in text else ""
    return list(csv.DictReader(io.StringIO(whole)))
