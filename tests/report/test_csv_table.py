"""Result tables: safe cells, unique private files, round trip through a csv reader."""

import csv
import math
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.rows.columns import NumberColumn, NumberWords, TextColumn, distinct_column
from msprobe.compare.rows.rows import RowBlock
from msprobe.report.csv_table import safe_cell, write_table


def _block(names: list[str]) -> RowBlock:
    ones, zeros = np.ones(len(names)), np.zeros(len(names), np.int64)
    return RowBlock([distinct_column(names), NumberColumn(ones, zeros, ())], zeros, [()] * len(names))


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
    index = np.zeros(1, np.int64)
    numbers = [NumberColumn(np.array([value]), np.array([code]), ()) for value, code in ((1.5, 0), (2.0, 1))]
    columns = [*(TextColumn(index, [text]) for text in texts), *numbers, distinct_column(["x"])]
    block = RowBlock(columns, index, [()])
    (path,) = write_table(folder, "t", ["c"], [block])
    with open(path, newline="", encoding="utf-8") as file:
        _, found = csv.reader(file)
    assert found == [str(safe_cell(text)) for text in texts] + ["1.5", "2", "x"]
    assert not any(cell.startswith(("=", "+", "@", "%")) for cell in found)


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    block = _block(["a"])
    first, second = (write_table(tmp_path, "t", ["c"], [block])[0] for _ in range(2))
    assert first != second and first.read_text() == second.read_text()
    assert stat.S_IMODE(first.stat().st_mode) == 0o600


def test_a_broken_off_table_leaves_no_file(tmp_path: Path) -> None:
    def blocks() -> Iterator[RowBlock]:
        yield _block(["a"] * 20_000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(tmp_path, "t", ["c", "d"], blocks())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_more_rows_than_a_sheet_holds_make_parts(tmp_path: Path) -> None:
    blocks = (_block([str(k)] * 9_000) for k in range(112))
    first, second = write_table(tmp_path, "t", ["c", "d"], blocks)
    assert second.name == "t_part_1.csv"
    rows = [path.read_text().count("\n") - 1 for path in (first, second)]
    assert rows == [1_000_000, 8_000]


CELLS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([
    0.0,
    -0.0,
    1e-5,
    9.9e-5,
    1e15,
    1e16,
    5e-324,
])
WORDS = ("N/A", "Nan", float("inf"), 2**60, 'a,"b"', "[1, 2]", "é\n", "1e-5", "cuda:0")


@given(st.lists(st.lists(CELLS | st.integers(-(2**53), 2**53) | st.sampled_from(WORDS), min_size=3, max_size=3)))
def test_numbers_in_bulk_read_as_those_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float | str]]
) -> None:
    words = NumberWords()
    columns = [words.column(cells) for cells in zip(*rows, strict=True)] if rows else []
    percent = [replace(column, percent=True) for column in columns]
    levels = np.zeros(len(rows), np.int64)
    block = RowBlock([*columns, *percent], levels, [()] * len(rows))
    (path,) = write_table(tmp_path_factory.mktemp("t"), "t", ["c"], [block] if rows else [])
    with open(path, newline="", encoding="utf-8") as file:
        _, *found = csv.reader(file)
    signs = [["%" if type(cell) is float and math.isfinite(cell) else "" for cell in row] for row in rows]
    shown = [[str(safe_cell(cell)) for cell in row] for row in rows]
    assert found == [[*row, *map("".join, zip(row, sign, strict=True))] for row, sign in zip(shown, signs, strict=True)]
