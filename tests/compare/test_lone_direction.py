"""Two programs of which only one ran backward: the verdict says what it does not cover."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.compare.dumps import call, tensor, write

FORWARD = {"Torch.abs.0.forward": call([tensor()], [tensor()])}
BACKWARD = {"Torch.abs.0.backward": {"input": [tensor()], "output": [tensor()]}}
SIDES = {"target": (FORWARD, FORWARD | BACKWARD), "golden run": (FORWARD | BACKWARD, FORWARD)}


@pytest.mark.parametrize("lacking", SIDES)
def test_of_other_programs_it_is_told(tmp_path: Path, lacking: str) -> None:
    ours, theirs = SIDES[lacking]
    result = msprobe.compare(write(tmp_path / "t", ours), write(tmp_path / "g", theirs), layer_mapping={"TopLayer": {}})
    other = "target" if lacking == "golden run" else "golden run"
    assert result.verdict == "same"
    assert (
        f"the {lacking} recorded no backward calls: 2 values of the {other} were not compared" in result.summary.reason
    )


def test_of_one_program_it_is_a_divergence(tmp_path: Path) -> None:
    target, golden = SIDES["target"]
    result = msprobe.compare(write(tmp_path / "t", target), write(tmp_path / "g", golden))
    assert result.verdict == "diverged" and result.summary.reason == ""


def test_nothing_is_told_where_both_have_both(tmp_path: Path) -> None:
    both = FORWARD | BACKWARD
    result = msprobe.compare(write(tmp_path / "t", both), write(tmp_path / "g", both), layer_mapping={"TopLayer": {}})
    assert result.verdict == "same" and result.summary.reason == ""
