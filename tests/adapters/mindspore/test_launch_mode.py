"""Operators are launched at once where values of a dynamic graph are looked at, and nowhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests import forked

JOB = Path(__file__).parent / "graph_jobs/launching.py"
ROOT = Path(__file__).parents[3]


def test_only_who_looks_at_values_changes_the_launch(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "3"}
    done = forked.run([JOB, tmp_path], env=environment, preloaded=forked.MINDSPORE)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    said = json.loads(done.stdout.decode().split("SEEN ", 1)[1].splitlines()[0])
    assert said == {"import": False, "structure": False, "graph": False, "values": True}
