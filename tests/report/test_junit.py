"""JUnit XML: what a CI system counts agrees with the verdict."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from msprobe.jobs import row_observer
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

FIRST, SECOND = "Functional.relu.0.forward", "Functional.gelu.0.forward"


def run(folder: Path, scale: float = 1.0, name: str = FIRST) -> Path:
    stack = {name: ["File train.py, line 3, in step, \n y = <relu>(x)"]}
    return write(folder, {name: call([tensor()], [tensor(scale)])}, stack=stack)


def root_of(path: Path) -> ET.Element:
    return ET.parse(path).getroot()


def numbers(element: ET.Element) -> dict[str, int]:
    return {name: int(element.get(name, "-1")) for name in ("tests", "failures", "errors", "skipped")}


def test_equal_runs_have_no_failure(tmp_path: Path) -> None:
    good = run(tmp_path / "g")
    assert compare(good, good, junit=tmp_path / "new" / "r.xml").verdict == "same"
    assert numbers(root_of(tmp_path / "new" / "r.xml")) == {"tests": 1, "failures": 0, "errors": 0, "skipped": 0}


def test_a_divergence_fails_with_reason_and_stack(tmp_path: Path) -> None:
    for step, scale in ((0, 1.0), (1, 3.0)):
        run(tmp_path / f"t/step{step}/rank0", scale)
        run(tmp_path / f"g/step{step}/rank0")
    compare(tmp_path / "t", tmp_path / "g", junit=tmp_path / "r.xml")
    good, bad = root_of(tmp_path / "r.xml")
    assert (good.get("name"), numbers(good)["failures"]) == ("step 0, rank0", 0)
    assert bad.get("name") == "step 1, rank0" and numbers(bad)["failures"] == len(list(bad.iter("failure"))) >= 1
    verdict = bad.find("testcase")
    assert verdict is not None and verdict.get("name") == "verdict"
    failure = verdict.find("failure")
    assert failure is not None and FIRST in failure.get("message", "") and "y = <relu>(x)" in (failure.text or "")
    assert [case.get("name") for case in bad.findall("testcase")][1:] == [FIRST]


def test_what_cannot_be_compared_is_an_error(tmp_path: Path) -> None:
    left, right = run(tmp_path / "t"), write(tmp_path / "g", {}, task="statistics")
    assert compare(left, right, junit=tmp_path / "r.xml").verdict == "not_comparable"
    assert numbers(root_of(tmp_path / "r.xml"))["errors"] == 1


def test_nothing_in_common_is_an_error(tmp_path: Path) -> None:
    run(tmp_path / "t/step0/rank0"), run(tmp_path / "g/step0/rank1")
    compare(tmp_path / "t", tmp_path / "g", junit=tmp_path / "r.xml")
    assert numbers(root_of(tmp_path / "r.xml"))["errors"] == 1


def test_lone_ranks_are_errors(tmp_path: Path) -> None:
    for name in ("t/step0/rank0", "t/step0/rank1", "g/step0/rank0", "g/step0/rank2"):
        run(tmp_path / name)
    compare(tmp_path / "t", tmp_path / "g", junit=tmp_path / "r.xml")
    assert numbers(root_of(tmp_path / "r.xml")) == {"tests": 3, "failures": 0, "errors": 2, "skipped": 0}


def test_hostile_names_make_valid_xml(tmp_path: Path) -> None:
    name = 'Functional.<a>&"\x00\x1b\uffff.0.forward'
    left, right = run(tmp_path / "t", 3.0, name), run(tmp_path / "g", 1.0, name)
    compare(left, right, junit=tmp_path / "r.xml")
    assert numbers(root_of(tmp_path / "r.xml"))["failures"] >= 1


def test_only_the_first_failures_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_observer, "MOST_FAILURES", 2)
    names = [f"Functional.relu.{k}.forward" for k in range(5)]
    for side, scale in (("t", 3.0), ("g", 1.0)):
        write(tmp_path / side, {name: call([tensor()], [tensor(scale)]) for name in names})
    compare(tmp_path / "t", tmp_path / "g", junit=tmp_path / "r.xml")
    assert [case.get("name") for case in root_of(tmp_path / "r.xml").iter("testcase")] == [
        "verdict",
        *names[:2],
        "further entries",
    ]
