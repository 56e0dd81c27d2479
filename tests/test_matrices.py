"""The tiers of the suite: what CI leaves out of a large matrix, and the page that a whole run leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import matrices
from tests.matrices import FIGURE, MATRICES, ROOT, calls_by_test, figures_of, matrix_params, write_result

SUITE = """
import pytest
from hypothesis import given, strategies as st
from tests.matrices import matrix_params

@pytest.mark.parametrize("size", matrix_params("big", [1, 2, 3], sample={"2"}))
def test_of_the_matrix(size): pass

@pytest.mark.parametrize("width, height", [(1, 2), (1, 3), (2, 3)])
@pytest.mark.parametrize("colour", ["red", "green"])
@pytest.mark.matrix("wide", sample="each value")
def test_of_combinations(width, height, colour): pass

@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.matrix("wide", sample=3)
@pytest.mark.matrix("big", sample=3)
def test_of_every_third(size): pass

def test_of_ci(): pass

@given(st.integers())
def test_property(number): pass
"""
COMBINED = [f"test_of_combinations[{case}]" for case in ("red-1-2", "red-2-3", "green-1-3")]
THIRD = ["test_of_every_third[1]", "test_of_every_third[4]"]
CONFTEST = """
from tests import matrices
matrices.MATRICES["big"] = "A matrix of this test."
from tests.conftest import *
"""


def collected(folder: Path, *arguments: str) -> list[str]:
    """Return the names of the tests that a run with these arguments selects."""
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = matrix")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    result = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    return [line.partition("::")[2] for line in result.stdout.splitlines() if "::" in line] or [result.stderr.strip()]


def test_ci_runs_the_sample(tmp_path: Path) -> None:
    assert collected(tmp_path) == ["test_of_the_matrix[2]", *COMBINED, *THIRD, "test_of_ci", "test_property"]


def test_the_matrix_of_combinations_runs_each_of_them_that_no_other_matrix_runs(tmp_path: Path) -> None:
    names = collected(tmp_path, "--matrix=wide")
    assert len(names) == 6 and all(name.startswith("test_of_combinations") for name in names)


def test_a_matrix_runs_all_of_it_and_nothing_else(tmp_path: Path) -> None:
    names = [f"test_of_the_matrix[{size}]" for size in (1, 2, 3)]
    assert collected(tmp_path, "--matrix=big") == names + [f"test_of_every_third[{size}]" for size in (1, 2, 3, 4)]


def test_fuzzing_runs_the_property_tests(tmp_path: Path) -> None:
    assert collected(tmp_path, "--matrix=fuzz") == ["test_property"]


def test_an_unknown_matrix_is_refused_with_the_names(tmp_path: Path) -> None:
    (message,) = collected(tmp_path, "--matrix=bug")
    assert "there is no matrix 'bug'; the names are " in message
    assert "fuzz" in message


def test_cases_of_a_parametrisation_keep_their_ids_and_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices.whole, "asked", True)
    cases = matrix_params("big", [(1, 2), pytest.param(3, 4, id="last", marks=pytest.mark.slow)], sample={"1-2"})
    assert [(case.values, case.id) for case in cases] == [((1, 2), "1-2"), ((3, 4), "last")]
    assert [mark.name for mark in cases[1].marks] == ["slow", "matrix"]
    assert [case.marks[-1].mark.kwargs["sample"] for case in cases] == [True, False]


def test_where_no_matrix_runs_the_cases_are_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices.whole, "asked", False)
    assert [case.id for case in matrix_params("big", [1, 2, 3], sample={"2"})] == ["2"]
    assert [case.id for case in matrix_params("big", [1, 2], sample=())] == ["1", "2"]  # a test needs a case


def test_the_page_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "RESULTS", tmp_path)
    page = write_result("fuzz", {"passed": ["a", "b"], "failed": ["tests/x.py::y"]}, 90.0)
    text = page.read_text(encoding="utf-8")
    assert "| passed | 2 |" in text and "| time | 1.5 minutes |" in text
    assert "- `tests/x.py::y`" in text


def test_the_page_of_a_run_counts_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "RESULTS", tmp_path)
    reports = [
        pytest.TestReport(f"tests/x.py::{test}", ("", 0, ""), {}, "passed", None, "call", user_properties=properties)
        for test, properties in (("a[0]", [("calls", 800), ("calls", 400)]), ("a[1]", [("calls", 9)]), ("b", []))
    ]
    text = write_result("fuzz", {}, 1.0, calls_by_test(reports)).read_text(encoding="utf-8")
    assert "| calls compared by `tests/x.py::a` | 1,209 |" in text and "::b" not in text


def test_the_page_of_a_run_has_the_figures_that_tests_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "RESULTS", tmp_path)
    noted = [["small", "same", True], ["small", "same", False], ["large", "same", True], ["large", "named", False]]
    reports = [
        pytest.TestReport(f"a[{number}]", ("", 0, ""), {}, "passed", None, "call", user_properties=[(FIGURE, value)])
        for number, value in enumerate(noted)
    ]
    text = write_result("fuzz", {}, 1.0, figures=figures_of(reports)).read_text(encoding="utf-8")
    assert "| | same | named |\n|---|---|---|\n| large | 1 of 1 | 0 of 1 |\n| small | 1 of 2 |  |\n" in text
    assert "## Figures" not in write_result("fuzz", {}, 1.0, figures=figures_of([])).read_text(encoding="utf-8")


def test_every_result_page_is_of_a_matrix() -> None:
    assert {page.stem for page in (ROOT / "docs" / "matrices").glob("*.md")} <= MATRICES.keys() | {"README"}
