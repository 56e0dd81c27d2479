"""Groups of rows in words and as csv."""

from __future__ import annotations

import csv
from pathlib import Path

from msprobe.compare.rows.summary import CompareSummary, OperatorGroup
from msprobe.report.operator_table import TITLES, group_lines, write_groups
from msprobe.report.summary_text import summary_text

MANY = OperatorGroup(
    "Functional.relu", "forward", rows=40, calls=39, errors=40, worst=12.345, worst_row="relu.7 output.0",
    first="relu.0 output.0", step=2, rank=1,
)  # fmt: skip
ONE = OperatorGroup("=cmd", "", rows=1, calls=1, errors=1, alone=1, first="x")


def test_a_group_is_one_line() -> None:
    assert list(group_lines([MANY, ONE])) == [
        "Functional.relu (forward): 40 rows of 39 calls, 40 differ by themselves; first relu.0 output.0; "
        "worst 12.3 times the tolerance: relu.7 output.0",
        "=cmd: 1 row of 1 call, 1 differs by itself, 1 on one side only; first x",
    ]
    text = summary_text(CompareSummary("diverged", "a", "b", "default", operators=[MANY]))
    assert "By operator: Functional.relu (forward): 40 rows" in text


def test_the_table_hides_formulas(tmp_path: Path) -> None:
    path = write_groups([MANY, ONE], tmp_path / "new", "compare_operators")
    titles, many, one = csv.reader(path.read_text().splitlines())
    assert tuple(titles) == TITLES
    assert many == [
        "Functional.relu", "forward", "40", "39", "40", "0", "12.345", "relu.7 output.0", "relu.0 output.0", "2", "1",
    ]  # fmt: skip
    assert not one[0].startswith("=") and one[6] == "N/A"
