"""Result tables as a workbook: numbers are numbers, rows are coloured by verdict, the head stays and has filters.

Texts are written as texts: nothing in a dump can become a formula or a link. NaN and infinities, for which the format
has no numbers, are the texts ``nan``, ``inf`` and ``-inf``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msprobe.compare.rows import RowBlock
from msprobe.core.errors import MsprobeException, said
from msprobe.report.new_file import named, unfinished
from msprobe.report.typed import typed

ROWS_OF_SHEET = 1_048_500
_LONGEST = 32_767
_WIDE, _NARROW = 40, 14
_COLOURS = {"error": ("#FFC7CE", "#9C0006"), "warning": ("#FFEB9C", "#7F6000")}
_PERCENT = "0.0000%"


def write_workbook(folder: Path, stem: str, columns: Sequence[str], blocks: Iterable[RowBlock]) -> list[Path]:
    """Write rows below a title line and return the file; rows beyond what a sheet holds go to further sheets.

    Raises:
        OSError: the file cannot be written.
        MsprobeException: xlsxwriter is not installed.
    """
    xlsxwriter = _library()
    with unfinished(folder, stem) as (temporary, descriptor):
        os.close(descriptor)
        options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        book = xlsxwriter.Workbook(str(temporary), {**options, "tmpdir": str(folder)})
        try:
            sheets = _Sheets(book, columns)
            for block in blocks:
                sheets.add(block)
            sheets.end()
        finally:
            _close(book, xlsxwriter)
        temporary.chmod(0o600)
        return [named(temporary, folder, stem, ".xlsx")]


def _library() -> Any:
    try:
        import xlsxwriter
    except ImportError as error:
        reason = f"{said(error)}; xlsx needs the extra `report` (pip install 'msprobe[report]')"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    return xlsxwriter


def _close(book: Any, xlsxwriter: Any) -> None:
    try:
        book.close()
    except xlsxwriter.exceptions.FileCreateError as error:
        raise OSError(str(error)) from error


class _Sheets:
    """Fills one sheet after the other."""

    def __init__(self, book: Any, columns: Sequence[str]) -> None:
        self._book, self._columns = book, columns
        self._head = book.add_format({"bold": True, "bottom": 1, "bg_color": "#D9E1F2", "text_wrap": True})
        self._percent = book.add_format({"num_format": _PERCENT})
        self._fills = {
            level: book.add_format({"bg_color": fill, "font_color": ink}) for level, (fill, ink) in _COLOURS.items()
        }
        self._full = 0
        self._sheet: Any = None
        self._row = 0

    def add(self, block: RowBlock) -> None:
        """Append rows."""
        for row in block.rows():
            if self._sheet is None or self._row == ROWS_OF_SHEET:
                self._next()
            self._row += 1
            self._write(row.cells)

    def end(self) -> None:
        """Finish the last sheet."""
        if self._sheet is None:
            self._next()
        self._finish()

    def _write(self, cells: list[Any]) -> None:
        sheet, row = self._sheet, self._row
        for column, cell in enumerate(cells):
            value, percent = typed(cell)
            if not isinstance(value, str):
                sheet.write_number(row, column, value, self._percent if percent else None)
            elif value:
                sheet.write_string(row, column, value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "...")

    def _next(self) -> None:
        if self._sheet is not None:
            self._finish()
            self._full += 1
        self._sheet = self._book.add_worksheet(f"part_{self._full}" if self._full else "Sheet1")
        self._row = 0
        self._sheet.freeze_panes(1, 1)
        self._sheet.set_column(0, len(self._columns) - 1, _NARROW)
        for column, title in enumerate(self._columns):
            if title in {"NPU Name", "Bench Name", "Err_message", "NPU_Stack_Info"}:
                self._sheet.set_column(column, column, _WIDE)
            self._sheet.write_string(0, column, title, self._head)

    def _finish(self) -> None:
        last = len(self._columns) - 1
        self._sheet.autofilter(0, 0, self._row, last)
        if "Result" not in self._columns or not self._row:
            return
        from xlsxwriter.utility import xl_col_to_name

        verdict = xl_col_to_name(self._columns.index("Result"))
        for level, fill in self._fills.items():
            rule = {"type": "formula", "criteria": f'=${verdict}2="{level}"', "format": fill}
            self._sheet.conditional_format(1, 0, self._row, last, rule)
