"""Workbooks: read back by another library, numbers are numbers, texts never formulas, the head stays."""

import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.compare.rows.columns import FIRST_WORD, NumberColumn, TextColumn, distinct_column
from msprobe.compare.rows.rows import RowBlock
from msprobe.jobs.compare import compare
from msprobe.report import xlsx_table
from msprobe.report.xlsx_table import write_workbook
from tests.compare.dumps import call, number, tensor, write

load_workbook = pytest.importorskip("python_calamine").load_workbook
NAME = "Functional.relu.0.forward"


def cells(path: Path, sheet: int = 0) -> list[list[Any]]:
    return load_workbook(path).get_sheet_by_index(sheet).to_python()


def test_numbers_are_numbers_and_percentages_fractions(tmp_path: Path) -> None:
    target = write(tmp_path / "t", {NAME: call([tensor()], [tensor(0.6)])})
    golden = write(tmp_path / "g", {NAME: call([tensor()], [tensor(0.5)])})
    result = compare(target, golden, output=tmp_path / "o", xlsx=True)
    (path,) = map(Path, result.summary.results)
    head, _, row = cells(path)
    found = dict(zip(head, row, strict=True))
    assert path.suffix == ".xlsx" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert found["NPU max"] == 1.2 and found["Bench max"] == 1.0
    assert found["Max diff"] == pytest.approx(0.2) and found["MaxRelativeErr"] == pytest.approx(0.2)
    assert found["Result"] == "warning" or found["Result"] == "error"


def test_small_percentages_keep_their_digits(tmp_path: Path) -> None:
    """The format of a cell shows 1e-5 % as 1.00E-05%, and not as 0.0000%."""
    target = write(tmp_path / "t", {NAME: call([tensor()], [tensor(1 + 1e-7)])})
    golden = write(tmp_path / "g", {NAME: call([tensor()], [tensor()])})
    (path,) = compare(target, golden, output=tmp_path / "o", xlsx=True).summary.results
    with zipfile.ZipFile(path) as archive:
        styles = archive.read("xl/styles.xml").decode()
    assert "[&lt;=0]0.0000%;[&lt;0.000001]0.00E+00%;0.0000%" in styles
    head, _, row = cells(Path(path))
    assert dict(zip(head, row, strict=True))["MaxRelativeErr"] == pytest.approx(1e-7)


def test_a_reader_sees_filters_a_frozen_head_and_colours(tmp_path: Path) -> None:
    target = write(tmp_path / "t", {NAME: call([tensor()], [tensor()])})
    (path,) = compare(target, target, output=tmp_path / "o", xlsx=True).summary.results
    with zipfile.ZipFile(path) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    assert "<autoFilter " in sheet and 'state="frozen"' in sheet and '="error"</formula>' in sheet
    assert list(tmp_path.joinpath("o").iterdir()) == [Path(path)]


@pytest.mark.parametrize(
    "text",
    ["=1+1", "{=SUM(A1)}", "+cmd", "http://example.org", "<b>&amp;", "a\x01b", "x" * 40_000, "1_000", "nan", "-inf"],
    ids=["formula", "array-formula", "plus", "link", "markup", "control", "long", "underscore", "nan", "infinity"],
)
def test_texts_stay_texts(tmp_path: Path, text: str) -> None:
    index = np.zeros(1, np.int64)
    column = distinct_column([text])
    block = RowBlock([column, column, NumberColumn(np.zeros(1), index + FIRST_WORD, [text])], index, [()])
    (path,) = write_workbook(tmp_path, "t", ["NPU Name", "b", "c"], [block])
    with zipfile.ZipFile(path) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet and "hyperlink" not in sheet
    found = cells(path)[1][0]
    assert isinstance(found, str)
    assert found == text or (found.endswith("...") and len(found) == 32_767) or "\x01" in text


def test_rows_beyond_a_sheet_go_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx_table, "ROWS_OF_SHEET", 3)
    index = np.zeros(4, np.int64)
    numbers = NumberColumn(np.ones(4), index, ()), NumberColumn(np.full(4, 2.0), index, (), percent=True)
    block = RowBlock([distinct_column(["a"] * 4), *numbers, TextColumn(index, ["pass"])], index, [()] * 4)
    (path,) = write_workbook(tmp_path, "t", ["a", "b", "c", "Result"], [block])
    book = load_workbook(path)
    assert book.sheet_names == ["Sheet1", "part_1"]
    assert cells(path, 1) == [["a", "b", "c", "Result"], ["a", 1.0, 0.02, "pass"]]


def test_a_broken_off_workbook_leaves_no_file(tmp_path: Path) -> None:
    def blocks() -> Any:
        yield RowBlock([distinct_column(["a"])], np.zeros(1, np.int64), [()])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_workbook(tmp_path, "t", ["a"], blocks())
    assert list(tmp_path.iterdir()) == []


def test_plain_arguments_of_every_kind(tmp_path: Path) -> None:
    values = [number(3), number(True), number("-x"), number(float("inf")), None]
    target = write(tmp_path / "t", {NAME: call(values, [tensor()])})
    (path,) = compare(target, target, output=tmp_path / "o", xlsx=True).summary.results
    found = [row[16] for row in cells(Path(path))[1:6]]
    assert found == [3.0, "True", "-x", "inf", "None"]
