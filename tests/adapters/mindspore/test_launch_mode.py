"""Operators are launched at once where values of a dynamic graph are looked at, and nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

JOB = Path(__file__).parent / "graph_jobs/launching.py"
ROOT = Path(__file__).parents[3]


def test_only_who_looks_at_values_changes_the_launch(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "3"}
    command = [sys.executable, str(JOB), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.split("SEEN ", 1)[1].splitlines()[0])
    assert said == {"import": False, "structure": False, "graph": False, "values": True}
