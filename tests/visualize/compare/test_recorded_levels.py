"""Two equal runs of different levels have one colour: only what both record is judged, and the graph says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from msprobe.jobs.compare import compare
from msprobe.visualize.job import Request, visualize
from tests import forked
from tests.compare.levels import record_levels
from tests.recordings import Recordings
from tests.visualize.databases import check, read

pytestmark = pytest.mark.torch
CALL = {"L0": "Module.1.LeakyReLU.forward.0", "L1": "Functional.leaky_relu.0.forward"}


@pytest.fixture(scope="module")
def runs(recordings: Recordings) -> Path:
    return recordings(record_levels)


@pytest.mark.parametrize("level", ["L0", "L1"])
@pytest.mark.parametrize("turned", [False, True], ids=["target-lacks", "golden-lacks"])
def test_equal_runs_differ_nowhere(runs: Path, tmp_path: Path, level: str, turned: bool) -> None:
    sides = {"target": runs / f"good_{level}", "golden": runs / "good_mix"}
    target, golden = list(sides.values())[:: -1 if turned else 1]
    tables = read(visualize(Request(target=target, golden=golden, output=tmp_path)))
    check(tables)
    for source in ("NPU", "Bench"):
        assert set(tables.verdicts(source).values()) <= {"same", "no_data", "not_compared"}
    side = tables.side()
    root = tables.ours[side["DefaultModel"]["id"]]
    assert (root["rollup_verdict"], side["DefaultModel"]["precision_index"]) == ("same", 0)
    assert json.loads(root["counts"])["pass"] > 5
    assert {row["precision_index"] for row in side.values()} <= {0, None}
    (summary,) = tables.meta["summary"]
    assert summary["verdict"] == "same"
    assert summary["incomplete"] == compare(target, golden).summary.incomplete
    told = tables.ours[tables.side("NPU" if turned else "Bench")[CALL["L1" if level == "L0" else "L0"]]["id"]]
    assert told["own_verdict"] == "not_compared"
    assert f"recorded at level {level}, which has no" in told["reason"]


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_a_difference_in_what_both_have_is_red(runs: Path, tmp_path: Path, level: str) -> None:
    tables = read(visualize(Request(target=runs / "bad_mix", golden=runs / f"good_{level}", output=tmp_path)))
    assert tables.verdicts()[CALL[level]] == "error"
    assert tables.side()["DefaultModel"]["precision_index"] == 1
    assert tables.meta["first_divergence"][0]["node"] == CALL[level]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    done = forked.run(["-m", "msprobe", "graph_visualize", *arguments])
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_command_says_it(runs: Path, tmp_path: Path) -> None:
    done = command("-tp", runs / "good_L0", "-gp", runs / "good_mix", "-o", tmp_path)
    assert done.returncode == 0
    (line,) = [line for line in done.stderr.splitlines() if "level" in line]
    assert "the target was recorded at level L0, which has no functions" in line


def test_modules_against_functions_are_refused(runs: Path, tmp_path: Path) -> None:
    done = command("-tp", runs / "good_L0", "-gp", runs / "good_L1", "-o", tmp_path)
    assert done.returncode == 3
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("msprobe: error: ")]
    assert "record both at one level" in error
    assert list(tmp_path.iterdir()) == []
