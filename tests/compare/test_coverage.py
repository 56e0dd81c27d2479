"""Data that a record says it holds and that cannot be compared makes the verdict ``incomplete``, in every output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.cli.main import run as cli
from msprobe.compare.rows.summary import CompareSummary
from tests.compare.dumps import call, gradient, number, tensor, write

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


def saved(array: Any) -> Callable[[Path], None]:
    return lambda file: np.save(file, array)


VALUES = np.linspace(-1.5, 2.0, 32, dtype=np.float32).reshape(4, 8)
UNREAD, OTHER = "1 of 6 tensors were not compared element by element", "1 of 6 tensor files are not what was recorded"
LOST: dict[str, tuple[Callable[[Path], Any], str]] = {
    "gone": (lambda file: file.unlink(), UNREAD),
    "cut": (lambda file: file.write_bytes(file.read_bytes()[:140]), UNREAD),
    "empty file": (lambda file: file.write_bytes(b""), UNREAD),
    "other shape": (saved(VALUES.reshape(8, 4)), OTHER),
    "other dtype": (saved(VALUES.astype(np.float64)), OTHER),
    "no elements": (saved(VALUES[:0]), OTHER),
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("damage", sorted(LOST))
@pytest.mark.parametrize("side", ["target", "golden"])
def test_one_file_of_many_that_cannot_be_read(tmp_path: Path, damage: str, side: str) -> None:
    target, golden = whole(tmp_path / "t"), whole(tmp_path / "g")
    name = f"{NAMES[1]}.output.0"
    change, sentence = LOST[damage]
    change((target if side == "target" else golden) / "dump_tensor_data" / f"{name}.npy")
    result = msprobe.compare(target, golden, junit=tmp_path / "r.xml")
    told = result.summary.incomplete
    assert result.verdict == "incomplete" and len(told) == 1 and told[0] in result.summary.reason
    assert told[0].startswith(sentence) and name in told[0]
    root = ET.parse(tmp_path / "r.xml").getroot()
    assert [root.get(kind) for kind in ("failures", "errors", "skipped")] == ["0", "1", "1"]
    found = root.find("testsuite/testcase[@name='verdict']/error")
    assert found is not None and found.get("type") == "incomplete" and found.get("message") == told[0]
    given = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "o")]
    assert [cli([*given, "--fail-on", level]) for level in ("never", "diverged", "incomplete")] == [0, 1, 1]


def test_files_that_hold_what_was_recorded_in_another_form(tmp_path: Path) -> None:
    """MindSpore saves bfloat16 as float32, and axes of length 1 are no difference."""
    folders = whole(tmp_path / "t"), whole(tmp_path / "g")
    for folder in folders:
        document = json.loads((folder / "dump.json").read_text())
        document["data"][NAMES[0]]["output"][0] |= {"dtype": "BFloat16", "shape": [1, 4, 8]}
        (folder / "dump.json").write_text(json.dumps(document))
    assert msprobe.compare(*folders).verdict == "same"


def test_equal_files_whose_records_differ_are_not_what_was_recorded(tmp_path: Path) -> None:
    target, golden = whole(tmp_path / "t"), whole(tmp_path / "g")
    document = json.loads((target / "dump.json").read_text())
    document["data"][NAMES[2]]["input_args"][0]["Mean"] = 0.2
    (target / "dump.json").write_text(json.dumps(document))
    result = msprobe.compare(target, golden)
    assert result.verdict == "incomplete" and result.summary.incomplete[0].startswith(OTHER)


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
}


@pytest.mark.parametrize("case", sorted(OPTIONAL))
def test_what_another_program_may_leave_out_is_told(tmp_path: Path, case: str) -> None:
    null, there = OPTIONAL[case]
    first, second = across(tmp_path / "a", null, there), across(tmp_path / "b", there, null)
    assert [first.verdict, second.verdict] == ["same", "same"]
    assert first.incomplete[0].startswith("1 value is null in the target and recorded in the golden run")
    assert second.incomplete[0].startswith("1 value is recorded in the target and null in the golden run")


def test_a_tensor_without_numbers_is_lost_in_another_program_too(tmp_path: Path) -> None:
    null, there = module([tensor()], argument=tensor() | NULL), module([tensor()])
    assert across(tmp_path / "a", null, there).incomplete[0].startswith("1 tensor lacks values in the target")
    assert across(tmp_path / "b", there, null).verdict == "incomplete"


def test_tensors_without_numbers_on_both_sides_are_told(tmp_path: Path) -> None:
    bare = write(tmp_path / "t", {"Torch.abs.0.forward": call([tensor()], [tensor() | NULL])})
    summary = msprobe.compare(bare, bare).summary
    assert summary.verdict == "incomplete"
    assert summary.incomplete[0].startswith("1 value is without numbers on both sides")


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in tensor().items() if name not in names}


def two_calls(leaf: Any) -> dict[str, Any]:
    return {
        "Torch.abs.0.forward": call([tensor()], [leaf]),
        "Torch.exp.0.forward": call([tensor()], [tensor()], dim=number(1)),
    }


LACKING: dict[str, dict[str, Any]] = {
    "one null": two_calls(tensor(Max=None)),
    "one key removed": two_calls(without("Mean")),
    "all null": two_calls(tensor() | NULL),
    "all keys removed": two_calls(without(*NULL)),
    "none in any tensor": {
        "Torch.abs.0.forward": call([without(*NULL)], [without(*NULL)]),
        "Torch.exp.0.forward": call([without(*NULL)], [without(*NULL)], dim=number(1)),
    },
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("case", sorted(LACKING))
@pytest.mark.parametrize("side", ["target", "golden run"])
def test_statistics_of_one_side(tmp_path: Path, case: str, side: str) -> None:
    lacking, good = write(tmp_path / "l", LACKING[case]), write(tmp_path / "g", two_calls(tensor()))
    target, golden = (lacking, good) if side == "target" else (good, lacking)
    result = msprobe.compare(target, golden)
    assert (result.verdict, result.summary.first_divergence) == ("incomplete", None)
    assert f"values in the {side}" in result.summary.incomplete[0]
    assert msprobe.compare(target, golden, policy="reference").verdict == "incomplete"
    analysis = diff_analyze(target, golden, tmp_path / "o")
    assert analysis.verdict == "incomplete" and next(iter(analysis.lines)).endswith("in what could be compared.")
    given = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "o")]
    for more in ([], ["-da"]):
        failing = [cli([*given, *more, "--fail-on", level]) for level in ("never", "diverged", "incomplete")]
        assert failing == [0, 1, 1]


@pytest.mark.parametrize("side", ["target", "golden run"])
def test_a_checksum_of_one_side(tmp_path: Path, side: str) -> None:
    good = write(tmp_path / "g", two_calls(tensor(md5="0ba0bb94")))
    lacking = write(tmp_path / "l", two_calls(tensor(md5=None)))
    for folder in (good, lacking):
        document = json.loads((folder / "dump.json").read_text())
        document["data"]["Torch.exp.0.forward"]["output"][0]["md5"] = "11111111"
        (folder / "dump.json").write_text(json.dumps(document))
    target, golden = (lacking, good) if side == "target" else (good, lacking)
    summary = msprobe.compare(target, golden).summary
    assert summary.verdict == "incomplete" and f"values in the {side}" in summary.incomplete[0]


NO_GAPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no elements": (two_calls(tensor(shape=(0, 8)) | NULL), two_calls(tensor(shape=(0, 8)) | NULL)),
    "bool": (two_calls(tensor(dtype="bool", Max=True, Min=False, Mean=None, Norm=None)),) * 2,
    "unwritten memory": (two_calls(tensor(uninitialised=True) | NULL), two_calls(tensor())),
    "not read": (two_calls(tensor(not_read=True) | NULL), two_calls(tensor())),
    "no data on both sides": (two_calls(tensor(no_data=True) | NULL),) * 2,
    "dtype that nothing measures": (two_calls(tensor(dtype="bits8") | NULL),) * 2,
    "fewer statistics as configured": (
        {"Torch.abs.0.forward": call([without("Max", "Min")], [without("Max", "Min")], dim=number(1))},
        {"Torch.abs.0.forward": call([tensor()], [tensor()], dim=number(1))},
    ),
}


@pytest.mark.parametrize("case", sorted(NO_GAPS))
def test_what_a_recording_leaves_out_by_design_is_no_gap(tmp_path: Path, case: str) -> None:
    left, right = (write(tmp_path / name, data) for name, data in zip("ab", NO_GAPS[case], strict=True))
    for target, golden in ((left, right), (right, left)):
        summary = msprobe.compare(target, golden).summary
        assert summary.verdict == "same", summary
        assert not any("lack" in line for line in summary.incomplete)


def test_no_data_on_one_side_is_a_gap(tmp_path: Path) -> None:
    bare = write(tmp_path / "t", two_calls(tensor(no_data=True) | NULL))
    assert msprobe.compare(bare, write(tmp_path / "g", two_calls(tensor()))).verdict == "incomplete"


def test_another_tool_that_records_less_is_a_note(tmp_path: Path) -> None:
    """Other tools record no Mean and Norm of integers."""
    integer = tensor(dtype="int64", Max=3, Min=0, Mean=1.0, Norm=9.0)
    ours, theirs = (
        write(tmp_path / name, two_calls(leaf)) for name, leaf in (("o", integer), ("t", integer | {"Mean": None}))
    )
    document = json.loads((ours / "dump.json").read_text())
    (ours / "dump.json").write_text(json.dumps({**document, "written_by": {"name": "msprobe", "version": "1"}}))
    for target, golden in ((ours, theirs), (theirs, ours)):
        summary = msprobe.compare(target, golden).summary
        assert (summary.verdict, summary.incomplete) == ("same", [])
        assert "tensors compared without Mean or Norm, which it does not compute for their dtype: 1" in summary.reason


@pytest.mark.parametrize("side", ["target", "golden"])
def test_the_gradient_of_a_parameter_on_one_side_is_a_divergence(tmp_path: Path, side: str) -> None:
    name = "Module.fc.Linear.parameters_grad"
    weight = {"weight": [tensor()]}
    both = {"Module.fc.Linear.forward.0": call([tensor()], [tensor()]), name: {**weight, "bias": [tensor()]}}
    for gone in (weight, {**weight, "bias": [None]}):
        lost = write(tmp_path / "a", {**both, name: gone})
        full = write(tmp_path / "b", both)
        summary = msprobe.compare(*((lost, full) if side == "target" else (full, lost))).summary
        assert summary.verdict == "diverged" and summary.first_divergence is not None
        assert summary.first_divergence.slot == "parameters_grad.bias"


def test_a_divergence_is_worse_than_a_gap(tmp_path: Path) -> None:
    wrong = {"Torch.tanh.0.forward": call([tensor()], [tensor(2)])}
    target = write(tmp_path / "t", {**two_calls(tensor(Max=None)), **wrong})
    golden = write(tmp_path / "g", {**two_calls(tensor()), "Torch.tanh.0.forward": call([tensor()], [tensor()])})
    result = msprobe.compare(target, golden)
    assert result.verdict == "diverged" and result.summary.incomplete


def test_several_pairs_are_as_good_as_the_worst(tmp_path: Path) -> None:
    for rank, leaf in enumerate((tensor(), tensor(Norm=None))):
        write(tmp_path / "t" / "step0" / f"rank{rank}", two_calls(leaf))
        write(tmp_path / "g" / "step0" / f"rank{rank}", two_calls(tensor()))
    result = msprobe.compare(tmp_path / "t", tmp_path / "g")
    assert result.verdict == "incomplete" and [one.verdict for one in result.outcomes] == ["same", "incomplete"]


@pytest.mark.parametrize(("checksums", "verdict"), [(False, "same"), (True, "diverged")])
@pytest.mark.parametrize("values", [(1.0, 1.0 + 1e-9), (0.0, -0.0)], ids=["rounding", "sign of zero"])
def test_numbers_are_exact_beside_checksums(
    tmp_path: Path, values: tuple[float, float], checksums: bool, verdict: str
) -> None:
    leaf = tensor(md5="0ba0bb94") if checksums else tensor()
    folders = [
        write(tmp_path / side, {"Torch.add.0.forward": call([leaf], [leaf], alpha=number(value))})
        for side, value in zip("tg", values, strict=True)
    ]
    assert msprobe.compare(*folders).verdict == verdict


ORDER = "1 value has the statistic of the order of elements on one side only"
REMARKS = {
    "requires_grad": (tensor(), tensor() | {"requires_grad": False}, "requires_grad of 1 value differs"),
    "nan": (*(tensor() | dict.fromkeys(NULL, float("nan")) for _ in range(2)), "1 tensor holds NaN in both runs"),
    "order": (tensor(Projection=1.5), tensor(), ORDER),
    "order null": (tensor(Projection=1.5), tensor(Projection=None), ORDER),
}


@pytest.mark.parametrize("case", sorted(REMARKS))
def test_notes_stand_beside_the_verdict_and_fail_nothing(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right, sentence = REMARKS[case]
    target, golden = write(tmp_path / "t", two_calls(left)), write(tmp_path / "g", two_calls(right))
    given = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "o"), "--fail-on", "incomplete"]
    assert cli(given) == 0
    text = capsys.readouterr().out
    assert text.startswith("Verdict: SAME (") and sentence in text.splitlines()[0]
    assert "Torch.abs.0.forward.output.0" in text
