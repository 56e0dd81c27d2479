"""Values that could not be compared stand beside the verdict, and ``--fail-on incomplete`` fails for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.cli.main import run as cli
from msprobe.compare.rows.summary import CompareSummary
from tests.compare.dumps import call, gradient, tensor, write

NAMES = ("Torch.abs.0.forward", "Torch.exp.0.forward", "Torch.tanh.0.forward")
NULL = dict.fromkeys(("Max", "Min", "Mean", "Norm"))


def whole(folder: Path) -> Path:
    """A tensor dump of three calls, each with an input and an output file."""
    data = {}
    (folder / "dump_tensor_data").mkdir(parents=True)
    values = np.linspace(-1.5, 2.0, 32, dtype=np.float32).reshape(4, 8)
    for name in NAMES:
        files = [f"{name}.{slot}.0.npy" for slot in ("input", "output")]
        for file in files:
            np.save(folder / "dump_tensor_data" / file, values)
        data[name] = call([tensor(data_name=files[0])], [tensor(data_name=files[1])])
    return write(folder, data, task="tensor")


LOST = {
    "gone": lambda file: file.unlink(),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:140]),
}


@pytest.mark.parametrize("damage", sorted(LOST))
@pytest.mark.parametrize("side", ["target", "golden"])
def test_one_file_of_many_that_cannot_be_read(tmp_path: Path, damage: str, side: str) -> None:
    target, golden = whole(tmp_path / "t"), whole(tmp_path / "g")
    name = f"{NAMES[1]}.output.0"
    LOST[damage]((target if side == "target" else golden) / "dump_tensor_data" / f"{name}.npy")
    result = msprobe.compare(target, golden, junit=tmp_path / "r.xml")
    told = result.summary.incomplete
    assert result.verdict == "same" and len(told) == 1 and told[0] in result.summary.reason
    assert told[0].startswith("1 of 6 tensors were not compared element by element") and name in told[0]
    assert ET.parse(tmp_path / "r.xml").getroot().get("skipped") == "1"
    given = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "o")]
    assert [cli([*given, "--fail-on", level]) for level in ("diverged", "incomplete")] == [0, 1]


def test_nothing_is_told_where_all_files_are_there(tmp_path: Path) -> None:
    summary = msprobe.compare(whole(tmp_path / "t"), whole(tmp_path / "g")).summary
    assert (summary.verdict, summary.incomplete, summary.reason) == ("same", [], "")


def test_the_call_analysis_says_that_it_reads_no_files(tmp_path: Path) -> None:
    result = diff_analyze(whole(tmp_path / "t"), whole(tmp_path / "g"), tmp_path / "o")
    assert "tensor files are not read" in next(iter(result.lines))


@pytest.mark.parametrize("left", [None, {"type": "int", "value": 3}], ids=["null", "number"])
def test_a_tensor_file_against_no_tensor(tmp_path: Path, left: Any) -> None:
    target, golden = whole(tmp_path / "t"), whole(tmp_path / "g")
    document = json.loads((target / "dump.json").read_text())
    document["data"][NAMES[1]]["output"][0] = left
    (target / "dump.json").write_text(json.dumps(document))
    for ours, theirs, kind in ((target, golden, "missing_in_target"), (golden, target, "missing_in_golden")):
        found = msprobe.compare(ours, theirs).summary.first_divergence
        assert found is not None and NAMES[1] in (found.target or "")
        assert found.kind == (kind if left is None else "argument")


def across(tmp_path: Path, target: dict[str, Any], golden: dict[str, Any]) -> CompareSummary:
    """The answer for a MindSpore target and a PyTorch golden run."""
    ours = write(tmp_path / "t", target)
    document = json.loads((ours / "dump.json").read_text())
    (ours / "dump.json").write_text(json.dumps({**document, "framework": "mindspore"}))
    return msprobe.compare(ours, write(tmp_path / "g", golden), layer_mapping={"TopLayer": {}}).summary


def module(output: list[Any], argument: Any = None) -> dict[str, Any]:
    return {"Module.fc.Linear.forward.0": call([tensor(), argument or tensor()], output), **calls([tensor()])}


def calls(output: list[Any]) -> dict[str, Any]:
    return {"Torch.abs.0.forward": call([tensor()], output), "Torch.exp.0.forward": call([tensor()], [tensor()])}


MAKERS = {"function": calls, "module": module}


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_a_result_that_is_null_in_one_framework_is_missing(tmp_path: Path, kind: str) -> None:
    null, there = MAKERS[kind]([None, None]), MAKERS[kind]([tensor(), None])
    found = across(tmp_path / "a", null, there).first_divergence
    assert found is not None and (found.kind, found.slot) == ("missing_in_target", "output.0")
    found = across(tmp_path / "b", there, null).first_divergence
    assert found is not None and (found.kind, found.slot) == ("missing_in_golden", "output.0")


OPTIONAL = {
    "second-result": (module([tensor(), None]), module([tensor(), tensor()])),
    "gradient": tuple(
        {**calls([tensor()]), "Module.fc.Linear.backward.0": gradient([tensor()], [given])}
        for given in (None, tensor())
    ),
    "unmeasured-input": (module([tensor()], argument=tensor() | NULL), module([tensor()])),
}


@pytest.mark.parametrize("case", sorted(OPTIONAL))
def test_what_another_program_may_leave_out_is_told(tmp_path: Path, case: str) -> None:
    null, there = OPTIONAL[case]
    first, second = across(tmp_path / "a", null, there), across(tmp_path / "b", there, null)
    assert [first.verdict, second.verdict] == ["same", "same"]
    assert first.incomplete[0].startswith("1 value is null in the target and recorded in the golden run")
    assert second.incomplete[0].startswith("1 value is recorded in the target and null in the golden run")


def test_tensors_without_numbers_on_both_sides_are_told(tmp_path: Path) -> None:
    bare = write(tmp_path / "t", {"Torch.abs.0.forward": call([tensor()], [tensor() | NULL])})
    summary = msprobe.compare(bare, bare).summary
    assert summary.incomplete[0].startswith("1 value is without numbers on both sides")
