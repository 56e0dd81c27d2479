"""Result tables: safe cells, unique private files, round trip through a csv reader."""

import csv
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.cells import Cells
from msprobe.compare.rows import RowBlock
from msprobe.report.csv import safe_cell, write_table


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@a", "%a", "\tx", "-2+3+cmd|' /C calc'!A0", "a;=b", "＝1"])
def test_formulas_are_escaped(text: str) -> None:
    assert safe_cell(text) == "'" + text


@pytest.mark.parametrize("cell", ["-1.5", "-inf", "12%", "Functional.add.0", "N/A", 1.5, 3])
def test_ordinary_cells_stay(cell: float | str) -> None:
    assert safe_cell(cell) == cell


def test_infinities_get_a_blank() -> None:
    assert [safe_cell(float("inf")), safe_cell(float("-inf"))] == [" inf", " -inf"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=5))
def test_no_cell_starts_a_formula_and_all_read_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("table")
    target, golden, *kinds = texts
    block = RowBlock(Cells([target], [golden], [tuple(kinds)], ["1.5,2"]), ["pass"], [()], [["x"]])
    (path,) = write_table(folder, "t", ["c"], [block])
    with open(path, newline="", encoding="utf-8") as file:
        _, found = csv.reader(file)
    assert found == [str(safe_cell(text)) for text in texts] + ["1.5", "2", "x"]
    assert not any(cell.startswith(("=", "+", "@", "%")) for cell in found)


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    block = RowBlock(Cells(["a"], ["b"], [("c",)], [[1.0]]), ["pass"], [()], [["x"]])
    first, second = (write_table(tmp_path, "t", ["c"], [block])[0] for _ in range(2))
    assert first != second and first.read_text() == second.read_text()
    assert stat.S_IMODE(first.stat().st_mode) == 0o600


def test_a_broken_off_table_leaves_no_file(tmp_path: Path) -> None:
    def blocks() -> Iterator[RowBlock]:
        yield RowBlock(Cells(["a"] * 20_000, ["b"] * 20_000, [("c",)] * 20_000, ["1"] * 20_000), [], [], [])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(tmp_path, "t", ["c", "d"], blocks())
    assert list(tmp_path.iterdir()) == []


def test_more_rows_than_a_sheet_holds_make_parts(tmp_path: Path) -> None:
    names, kinds, numbers = ["a"] * 9_000, [("c",)] * 9_000, ["1"] * 9_000
    blocks = (RowBlock(Cells([str(k)] * 9_000, names, kinds, numbers), [], [], []) for k in range(112))
    first, second = write_table(tmp_path, "t", ["c", "d"], blocks)
    assert second.name == "t_part_1.csv"
    rows = [path.read_text().count("\n") - 1 for path in (first, second)]
    assert rows == [1_000_000, 8_000]
