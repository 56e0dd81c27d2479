"""Task ``grad_probe`` in static graphs: the files of a dynamic one, and a training that stays as it was."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.rules.tree import ROOT

JOB = Path(__file__).parents[1] / "graph_jobs" / "gradient_probe.py"


def rows(folder: Path, step: int) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "rank0" / f"grad_summary_{step}.csv").read_text().splitlines()))


def run(mode: str, folder: Path) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "3"}
    done = forked.run([JOB, mode, folder], env=environment, preloaded=forked.MINDSPORE)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return json.loads(done.stdout.decode().split("SEEN ", 1)[1].splitlines()[0])


def test_a_static_graph_has_the_files_of_a_dynamic_one(tmp_path: Path) -> None:
    said = {mode: run(mode, tmp_path / mode) for mode in ("dynamic", "graph", "plain")}
    assert said["graph"]["losses"] == said["plain"]["losses"]
    assert "GRAPH_MODE" in said["graph"]["refused"] and "\n" not in said["graph"]["refused"]
    files = sorted(path.name for path in (tmp_path / "graph" / "rank0").iterdir())
    assert files == ["grad_summary_0.csv", "grad_summary_1.csv", "grad_summary_2.csv"]
    for step in range(3):
        static, dynamic = rows(tmp_path / "graph", step), rows(tmp_path / "dynamic", step)
        assert [(one["param_name"], one["shape"]) for one in static] == [
            (one["param_name"], one["shape"]) for one in dynamic
        ]
        for one, other in zip(static, dynamic, strict=True):
            assert float(one["norm"]) == pytest.approx(float(other["norm"]), rel=1e-4)
    assert not (tmp_path / "plain").exists()
