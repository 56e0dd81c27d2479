"""What the quick tier leaves out: a list that follows from the durations of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import slow_tests
from tests.rules.tree import ROOT
from tests.slow_tests import LISTED, bounded, slow_functions

REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_slow_tests" name="test_first_pays[1]" time="3.0"/>
<testcase classname="tests.test_slow_tests" name="test_first_pays[2]" time="0.01"/>
<testcase classname="tests.test_slow_tests" name="test_first_pays[3]" time="0.01"/>
<testcase classname="tests.test_slow_tests.Kind" name="test_all_are_long[a[b]]" time="0.9"/>
</testsuite></testsuites>
"""


def test_a_function_is_slow_whose_cases_are(tmp_path: Path) -> None:
    (tmp_path / "durations.xml").write_text(REPORT)
    assert slow_functions(tmp_path / "durations.xml") == ["tests/test_slow_tests.py::Kind::test_all_are_long"]


def test_what_takes_long_without_the_mark_fails(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_tests, "LONGEST", 0.5)
    monkeypatch.setattr(slow_tests, "ALWAYS", 0.02)
    with bounded(request.node):
        pass
    with (
        pytest.raises(pytest.fail.Exception, match="turns of CPU; above"),
        bounded(request.node),
    ):
        slow_tests._turn()
    request.node.add_marker("slow")
    with bounded(request.node):
        slow_tests._turn()


def test_how_long_is_told_in_turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which all takes longer fails no test."""
    monkeypatch.setattr(slow_tests, "LONGEST", 0.5)
    monkeypatch.setattr(slow_tests, "ALWAYS", 0.02)
    monkeypatch.setattr(slow_tests, "_turn", lambda: 1000.0)
    with bounded(request.node):
        sum(range(10_000_000))


def test_the_files_of_the_list_exist() -> None:
    listed = {line.partition("::")[0] for line in LISTED.read_text(encoding="utf-8").splitlines()}
    assert sorted(name for name in listed if not (ROOT / name).is_file()) == []
