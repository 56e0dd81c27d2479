"""Two programs of which only one ran backward: that is no other way to write the same, and never passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import msprobe
from tests.compare.dumps import call, tensor, write

FORWARD = {"Torch.abs.0.forward": call([tensor()], [tensor()])}
BACKWARD = {"Torch.abs.0.backward": {"input": [tensor()], "output": [tensor()]}}
SIDES = {"target": (FORWARD, FORWARD | BACKWARD), "golden run": (FORWARD | BACKWARD, FORWARD)}


@pytest.mark.parametrize("lacking", SIDES)
def test_of_other_programs_it_is_a_divergence_and_told(tmp_path: Path, lacking: str) -> None:
    ours, theirs = SIDES[lacking]
    result = msprobe.compare(write(tmp_path / "t", ours), write(tmp_path / "g", theirs), layer_mapping={"TopLayer": {}})
    other = "target" if lacking == "golden run" else "golden run"
    found = result.summary.first_divergence
    assert found is not None and "Torch.abs.0.backward" in (found.target, found.golden)
    told = f"the {lacking} recorded no backward calls: 2 values of the {other} were not compared"
    assert result.summary.reason == told and result.summary.incomplete == [told]


def test_of_two_frameworks_too(tmp_path: Path) -> None:
    target, golden = write(tmp_path / "t", FORWARD), write(tmp_path / "g", FORWARD | BACKWARD)
    document = json.loads((target / "dump.json").read_text())
    (target / "dump.json").write_text(json.dumps({**document, "framework": "mindspore"}))
    found = msprobe.compare(target, golden).summary.first_divergence
    assert found is not None and (found.kind, found.golden) == ("missing_in_target", "Torch.abs.0.backward")


def test_a_single_call_without_a_partner_stays_other_code(tmp_path: Path) -> None:
    other = {"Torch.exp.0.backward": BACKWARD["Torch.abs.0.backward"]}
    target, golden = write(tmp_path / "t", FORWARD | BACKWARD | other), write(tmp_path / "g", FORWARD | BACKWARD)
    result = msprobe.compare(target, golden, layer_mapping={"TopLayer": {}})
    assert (result.verdict, result.summary.counts.target_only, result.summary.incomplete) == ("same", 2, [])


def test_of_one_program_it_is_a_divergence(tmp_path: Path) -> None:
    target, golden = SIDES["target"]
    result = msprobe.compare(write(tmp_path / "t", target), write(tmp_path / "g", golden))
    assert result.verdict == "diverged" and result.summary.reason == ""


def test_nothing_is_told_where_both_have_both(tmp_path: Path) -> None:
    both = FORWARD | BACKWARD
    result = msprobe.compare(write(tmp_path / "t", both), write(tmp_path / "g", both), layer_mapping={"TopLayer": {}})
    assert result.verdict == "same" and result.summary.reason == ""
