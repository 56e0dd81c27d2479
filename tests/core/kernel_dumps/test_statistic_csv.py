"""statistic.csv: written and read, and as Ascend writes it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.core.kernel_dumps.kernel_statistics import StatisticRow, read_statistics, write_statistics


def test_rows_come_back(tmp_path: Path) -> None:
    values = {"Max Value": math.inf, "Avg Value": 0.1, "NaN Count": 3, "MD5": "ab", "L2Norm Value": math.nan}
    row = StatisticRow("Add", "Default_Add-op0", "1", "2", 17, "output", 0, 24, "float32", (2, 3), values)
    write_statistics(tmp_path / "statistic.csv", [row], list(values))
    (found,) = read_statistics(tmp_path / "statistic.csv")
    assert str(found) == str(row)


def test_a_value_that_does_not_exist_stays_absent(tmp_path: Path) -> None:
    row = StatisticRow("Add", "a", "0", "0", 1, "input", 0, 1, "bool", (), {"Avg Value": None})
    write_statistics(tmp_path / "statistic.csv", [row], ["Avg Value"])
    (found,) = read_statistics(tmp_path / "statistic.csv")
    assert found.values == {"Avg Value": None} and found.shape == ()


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "statistic.csv").write_text("Op Type,Op Name\nAdd,a\n")
    with pytest.raises(ReadError, match=r"line 2: no row of a statistic\.csv"):
        list(read_statistics(tmp_path / "statistic.csv"))
