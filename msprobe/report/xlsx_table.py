"""Result tables as a workbook: numbers are numbers, rows are coloured by verdict, the head stays and has filters.

Texts are written as texts: nothing in a dump can become a formula or a link. NaN and infinities, for which the format
has no numbers, are the texts ``nan``, ``inf`` and ``-inf``. Rows go to a temporary file as they come, so that memory
does not grow with the table.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msprobe.compare.rows.columns import FIRST_WORD, INTEGER, Column, TextColumn
from msprobe.compare.rows.rows import RowBlock
from msprobe.core.errors import MsprobeException, error_text
from msprobe.numerics.metrics.statistics import Cell
from msprobe.report.result_file import publish, unfinished

ROWS_OF_SHEET = 1_048_500
_LONGEST = 32_767
_NOT_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
_WIDE, _NARROW = 40, 14
_WIDE_COLUMNS = {"NPU Name", "Bench Name", "Err_message", "NPU_Stack_Info"}
_COLOURS = {"error": ("#FFC7CE", "#9C0006"), "warning": ("#FFEB9C", "#7F6000")}
_PERCENT = "0.0000%"


def write_workbook(folder: Path, stem: str, columns: Sequence[str], blocks: Iterable[RowBlock]) -> list[Path]:
    """Write rows below a title line and return the file; rows beyond what a sheet holds go to further sheets.

    Raises:
        OSError: the file cannot be written.
        MsprobeException: xlsxwriter is not installed.
    """
    xlsxwriter = _library()
    with unfinished(folder, stem) as (temporary, descriptor), tempfile.TemporaryDirectory(dir=folder) as parts:
        with os.fdopen(descriptor, "wb") as file:
            _write_rows(_Book(xlsxwriter.Workbook(file, {"constant_memory": True, "tmpdir": parts}), columns), blocks)
        return [publish(temporary, folder, stem, ".xlsx")]


def _library() -> Any:
    try:
        import xlsxwriter
    except ImportError as error:
        reason = f"{error_text(error)}; xlsx needs the extra `report` (pip install 'msprobe[report]')"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    return xlsxwriter


def _write_rows(book: _Book, blocks: Iterable[RowBlock]) -> None:
    try:
        for block in blocks:
            book.add(block)
    except BaseException:
        with suppress(Exception):  # its temporary files are closed with the book
            book.close()
        raise
    book.close()


class _Book:
    """A workbook that is written row by row."""

    def __init__(self, book: Any, columns: Sequence[str]) -> None:
        self._book, self._columns = book, columns
        self._head = book.add_format({"bold": True, "bottom": 1, "bg_color": "#D9E1F2", "text_wrap": True})
        self._percent = book.add_format({"num_format": _PERCENT})
        self._fills = {
            level: book.add_format({"bg_color": fill, "font_color": ink}) for level, (fill, ink) in _COLOURS.items()
        }
        self._sheets = 0
        self._rows = 0
        self._sheet = self._new_sheet()

    def add(self, block: RowBlock) -> None:
        """Append the rows of a block."""
        formats = [self._percent if getattr(column, "percent", False) else None for column in block.columns]
        for cells in zip(*map(_cells, block.columns), strict=True):
            if self._rows == ROWS_OF_SHEET:
                self._finish_sheet()
                self._sheet = self._new_sheet()
            self._rows += 1
            text, number, row = self._sheet.write_string, self._sheet.write_number, self._rows
            for column, cell in enumerate(cells):
                if type(cell) is str:
                    text(row, column, cell)
                else:
                    number(row, column, cell, formats[column])

    def close(self) -> None:
        """Write the file."""
        self._finish_sheet()
        self._book.close()

    def _new_sheet(self) -> Any:
        """Return a sheet with its title row."""
        sheet = self._book.add_worksheet(f"part_{self._sheets}" if self._sheets else "Sheet1")
        self._sheets += 1
        self._rows = 0
        sheet.freeze_panes(1, 1)
        for column, title in enumerate(self._columns):
            sheet.set_column(column, column, _WIDE if title in _WIDE_COLUMNS else _NARROW)
            sheet.write_string(0, column, title, self._head)
        return sheet

    def _finish_sheet(self) -> None:
        """Add filters and colours for the rows of the sheet."""
        rows, last = self._rows, len(self._columns) - 1
        self._sheet.autofilter(0, 0, rows, last)
        if "Result" not in self._columns or not rows:
            return
        from xlsxwriter.utility import xl_col_to_name

        verdict = xl_col_to_name(self._columns.index("Result"))
        for level, fill in self._fills.items():
            rule = {"type": "formula", "criteria": f'=${verdict}2="{level}"', "format": fill}
            self._sheet.conditional_format(1, 0, rows, last, rule)


def _cells(column: Column) -> list[Any]:
    """Return a number or a text for each row; a percentage as a fraction."""
    if isinstance(column, TextColumn):
        return list(map([_text(word) for word in column.words].__getitem__, column.index.tolist()))
    cells: list[Any] = (column.values / 100.0 if column.percent else column.values).tolist()
    for row in (column.codes >= FIRST_WORD).nonzero()[0].tolist():
        cells[row] = _word(column.words[int(column.codes[row]) - FIRST_WORD])
    if column.percent:
        for row in (column.codes == INTEGER).nonzero()[0].tolist():
            cells[row] = float(column.values[row])
    return cells


def _word(word: Cell) -> Any:
    return word if type(word) is int else _text(str(word))


def _text(text: str) -> str:
    """Return a text as the format holds it: cut to its greatest length, without what XML cannot hold."""
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    return _NOT_XML.sub("\ufffd", text)
