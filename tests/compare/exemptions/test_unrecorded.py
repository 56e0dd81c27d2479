"""Real runs recorded at different levels: only what both levels record is judged, and the answer says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msprobe.jobs.compare import compare
from tests.compare.dumps import call, module, tensor, write
from tests.compare.levels import record_levels
from tests.recordings import Recordings

pytestmark = pytest.mark.torch
LACKS = {"L0": "functions", "L1": "modules"}
RELU = {"L0": "Module.1.LeakyReLU.forward.0", "L1": "Functional.leaky_relu.0.forward"}


@pytest.fixture(scope="module")
def runs(recordings: Recordings) -> Path:
    return recordings(record_levels)


@pytest.mark.parametrize("policy", ["default", "reference"])
@pytest.mark.parametrize("level", ["L0", "L1"])
@pytest.mark.parametrize("lacking", ["target", "golden run"])
def test_equal_runs_are_the_same_and_what_was_left_out_is_told(
    runs: Path, level: str, lacking: str, policy: str
) -> None:
    sides = [f"good_{level}", "good_mix"]
    target, golden = sides if lacking == "target" else sides[::-1]
    summary = compare(runs / target, runs / golden, policy=policy).summary
    (told,) = summary.incomplete
    other = "golden run" if lacking == "target" else "target"
    lone = summary.counts.golden_only or summary.counts.target_only
    assert lone > 0
    assert told == (
        f"the {lacking} was recorded at level {level}, which has no {LACKS[level]}: "
        f"{lone} values of the {other} were not compared"
    )
    assert (summary.verdict, summary.first_divergence, summary.reason) == ("same", None, told)
    assert summary.counts.passed > 0


@pytest.mark.parametrize("level", ["L0", "L1"])
@pytest.mark.parametrize("lacking", ["target", "golden run"])
def test_a_difference_in_what_both_have_is_found(runs: Path, level: str, lacking: str) -> None:
    target, golden = (f"bad_{level}", "good_mix") if lacking == "target" else ("bad_mix", f"good_{level}")
    summary = compare(runs / target, runs / golden).summary
    assert summary.verdict == "diverged"
    assert summary.first_divergence is not None
    assert summary.first_divergence.target == RELU[level]
    assert len(summary.incomplete) == 1


def test_rows_of_what_was_left_out_are_no_pass(runs: Path) -> None:
    alone = [row for row in compare(runs / "good_L0", runs / "good_mix").rows() if row.target == "N/A"]
    assert alone and {row.level for row in alone} == {"warning"}
    assert all("recorded at level L0, which has no functions" in row.messages[0] for row in alone)


def test_modules_against_functions_cannot_be_compared(runs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "msprobe", "compare", "-tp", str(runs / "good_L0"), "-gp", str(runs / "good_L1")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "level L0, which has no functions" in line and "record both at one level" in line


def test_values_that_a_mapping_pairs_are_compared(runs: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "values.yaml"
    mapping.write_text(f"{RELU['L0']}.output.0: {RELU['L1']}.output.0\n")
    summary = compare(runs / "bad_L0", runs / "good_L1", data_mapping=mapping).summary
    assert summary.verdict == "diverged"
    assert summary.first_divergence is not None and summary.first_divergence.target == RELU["L0"]
    summary = compare(runs / "good_L0", runs / "good_L1", data_mapping=mapping).summary
    assert summary.counts.passed > 0


def test_a_run_that_was_gated_may_fail_on_it(runs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "msprobe", "compare", "-tp", str(runs / "good_L0"), "-gp", str(runs / "good_mix")]
    done = subprocess.run(
        [*command, "--fail-on", "incomplete", "-o", "out"], capture_output=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1


FC, RELU_API, ADD = "Module.fc.Linear.forward.0", "Functional.relu.0.forward", "Tensor.add.0.forward"


def at_level(folder: Path, data: dict[str, Any], level: str | None) -> Path:
    place = write(folder / "rank0", data)
    document = json.loads((place / "dump.json").read_text())
    document["level"] = level
    (place / "dump.json").write_text(json.dumps(document))
    return folder


@pytest.mark.parametrize(
    ("level", "more"),
    [
        pytest.param("mix", {}, id="level-that-has-them"),
        pytest.param(None, {}, id="unknown-level"),
        pytest.param("L0", {RELU_API: call([tensor()], [tensor()])}, id="some-are-there-all-the-same"),
    ],
)
def test_a_call_that_could_have_been_recorded_is_not_excused(
    tmp_path: Path, level: str | None, more: dict[str, Any]
) -> None:
    layer = {FC: module([tensor()], [tensor()])}
    functions = {name: call([tensor()], [tensor()]) for name in (RELU_API, ADD)}
    target = at_level(tmp_path / "target", layer | more, level)
    golden = at_level(tmp_path / "golden", layer | functions, "mix")
    summary = compare(target, golden).summary
    assert summary.verdict == "same" and "not judged" in summary.incomplete[0]


def test_a_module_that_both_levels_record_is_missing(tmp_path: Path) -> None:
    layer = {FC: module([tensor()], [tensor()])}
    target = at_level(tmp_path / "target", layer, "L0")
    more = {"Module.gate.Linear.forward.0": module([tensor()], [tensor(2.0)]), ADD: call([tensor()], [tensor()])}
    summary = compare(target, at_level(tmp_path / "golden", layer | more, "mix")).summary
    assert summary.first_divergence is not None
    assert summary.first_divergence.golden == "Module.gate.Linear.forward.0"
