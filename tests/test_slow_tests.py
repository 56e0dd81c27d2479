"""What the quick tier leaves out: a list that follows from the durations of a run."""

from __future__ import annotations

from pathlib import Path

from tests.rules.tree import ROOT
from tests.slow_tests import LISTED, slow_functions

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


def test_the_files_of_the_list_exist() -> None:
    listed = {line.partition("::")[0] for line in LISTED.read_text(encoding="utf-8").splitlines()}
    assert sorted(name for name in listed if not (ROOT / name).is_file()) == []
