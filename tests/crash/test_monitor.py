"""Faults around a monitored training: a full disk, a folder that goes away, a process that is killed."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from msprobe.monitor.recorded.trend_job import write_monitor_trend
from tests import forked
from tests.crash.test_disk import small_disk as small_disk
from tests.matrices import matrix_params
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch
CONFIG = {"wg_distribution": True, "param_distribution": True, "step_count_per_record": 1000}


def start(folder: Path, steps: int, **config: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MONITOR_OUTPUT_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    words = [forked.python(), "-u", "-m", "tests.crash.monitored", str(steps), json.dumps({**CONFIG, **config})]
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


@pytest.mark.slow
@pytest.mark.parametrize("number", matrix_params("kills", range(60), {"0", "1"}))
def test_every_file_is_readable_after_a_kill(number: int, tmp_path: Path) -> None:
    """Tables of text, and databases of which each step is one transaction; ``data2db`` reads what is left of both."""
    rng, kind = random.Random(number), ("csv", "trend")[number % 2]
    process = start(tmp_path / "out", 100_000, format=kind, step_count_per_record=rng.choice([1, 3, 1000]))
    assert process.stdout is not None
    done = -1
    end = time.monotonic() + rng.uniform(0, 1)
    for line in process.stdout:
        if line.startswith("step "):
            done = int(line.split()[1])
            if time.monotonic() > end:
                break
        else:
            end = time.monotonic() + rng.uniform(0, 1)
    process.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
    process.communicate()
    trend = write_monitor_trend(tmp_path / "out", tmp_path / "read")
    assert trend.steps > done
    rows = sqlite3.connect(trend.path).execute("SELECT step, count(*) FROM trend_data GROUP BY step").fetchall()
    counts = dict(rows)
    assert all(counts[step] == counts[0] for step in range(done + 1))


def complete_rows(text: str) -> list[dict[str, str]]:
    """Return the rows up to the last end of a line, because the last one may be cut off."""
    whole = text[: text.rindex("\n") + 1] if "\n" in text else ""
    return list(csv.DictReader(io.StringIO(whole)))
