"""Result tables as a workbook: numbers are numbers, rows are coloured by verdict, the head stays and has filters.

xlsxwriter makes the book with its styles, filters and title rows; the rows below are written as the XML of the format
(ECMA-376 part 1, 18.3.1) and put in their place, which takes a quarter of the time of a call per cell. Texts are
written as texts: nothing in a dump can become a formula or a link. NaN and infinities, for which the format has no
numbers, are the texts ``nan``, ``inf`` and ``-inf``.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from msprobe.compare.rows import RowBlock
from msprobe.core.errors import MsprobeException, error_text
from msprobe.report.csv import Chunks
from msprobe.report.new_file import named, unfinished
from msprobe.report.sheet_rows import SheetRows

ROWS_OF_SHEET = 1_048_500
_WIDE, _NARROW = 40, 14
_WIDE_COLUMNS = {"NPU Name", "Bench Name", "Err_message", "NPU_Stack_Info"}
_COLOURS = {"error": ("#FFC7CE", "#9C0006"), "warning": ("#FFEB9C", "#7F6000")}
_PERCENT = "0.0000%"
_SHEET = re.compile(r"xl/worksheets/sheet(\d+)\.xml")
_MARK = re.compile(r'<row r="2".*?</row>', re.DOTALL)
_STYLE = re.compile(r'<row r="2".*?<c r="A2" s="(\d+)"', re.DOTALL)
_EXTENT = re.compile(r'<dimension ref="(A1:[A-Z]+)\d+"/>')


def sheet_chunks() -> Callable[[Iterable[RowBlock], int], Chunks]:
    """What turns blocks of rows, of which the first has a number in its table, into the XML of a sheet, many rows at a
    time. No chunk goes beyond the end of a sheet.

    Raises:
        MsprobeException: xlsxwriter is not installed.
    """
    percent = _percent_style(_book(_library(), ["A"], [1]))
    return partial(_chunks, percent)


def _chunks(percent: str, blocks: Iterable[RowBlock], first: int) -> Chunks:
    rows = SheetRows(percent)
    for block in blocks:
        lines = rows.cells(block)
        while part := list(islice(lines, ROWS_OF_SHEET - first % ROWS_OF_SHEET)):
            rows.start(first % ROWS_OF_SHEET)
            yield len(part), "".join(map(rows.row, part)).encode("utf-8")
            first += len(part)


def write_workbook(folder: Path, stem: str, columns: Sequence[str], rows: Chunks) -> list[Path]:
    """Write what ``sheet_chunks`` made of consecutive rows below a title line and return the file; rows beyond what a
    sheet holds go to further sheets.

    Raises:
        OSError: the file cannot be written.
        MsprobeException: xlsxwriter is not installed.
    """
    xlsxwriter = _library()
    with unfinished(folder, stem) as (temporary, descriptor), ExitStack() as stack:
        file = stack.enter_context(os.fdopen(descriptor, "wb"))
        sheets: list[IO[bytes]] = []
        counts: list[int] = []
        for count, text in rows:
            if not counts or counts[-1] == ROWS_OF_SHEET:
                sheets.append(stack.enter_context(tempfile.TemporaryFile(dir=folder)))
                counts.append(0)
            sheets[-1].write(text)
            counts[-1] += count
        _put_together(file, _book(xlsxwriter, columns, counts or [0]), list(zip(sheets, counts, strict=True)))
        file.flush()
        return [named(temporary, folder, stem, ".xlsx")]


def _library() -> Any:
    try:
        import xlsxwriter
    except ImportError as error:
        reason = f"{error_text(error)}; xlsx needs the extra `report` (pip install 'msprobe[report]')"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    return xlsxwriter


def _book(xlsxwriter: Any, columns: Sequence[str], counts: Sequence[int]) -> zipfile.ZipFile:
    """A book with a sheet per number of rows, each with its title row and, as row 2, a mark in the style of
    percentages."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True}) as book:
        head = book.add_format({"bold": True, "bottom": 1, "bg_color": "#D9E1F2", "text_wrap": True})
        percent = book.add_format({"num_format": _PERCENT})
        fills = {
            level: book.add_format({"bg_color": fill, "font_color": ink}) for level, (fill, ink) in _COLOURS.items()
        }
        for number, rows in enumerate(counts):
            sheet = book.add_worksheet(f"part_{number}" if number else "Sheet1")
            sheet.freeze_panes(1, 1)
            for column, title in enumerate(columns):
                sheet.set_column(column, column, _WIDE if title in _WIDE_COLUMNS else _NARROW)
                sheet.write_string(0, column, title, head)
            sheet.write_number(1, 0, 0, percent)
            sheet.autofilter(0, 0, rows, len(columns) - 1)
            if "Result" in columns and rows:
                _colour(sheet, columns, rows, fills)
    return zipfile.ZipFile(file)


def _colour(sheet: Any, columns: Sequence[str], rows: int, fills: dict[str, Any]) -> None:
    from xlsxwriter.utility import xl_col_to_name

    verdict = xl_col_to_name(columns.index("Result"))
    for level, fill in fills.items():
        rule = {"type": "formula", "criteria": f'=${verdict}2="{level}"', "format": fill}
        sheet.conditional_format(1, 0, rows, len(columns) - 1, rule)


def _percent_style(book: zipfile.ZipFile) -> str:
    found = _STYLE.search(book.read("xl/worksheets/sheet1.xml").decode())
    return found[1] if found else "0"


def _put_together(file: IO[bytes], book: zipfile.ZipFile, sheets: Sequence[tuple[IO[bytes], int]]) -> None:
    """Write the book with the rows in the place of the marks."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in book.namelist():
            found = _SHEET.fullmatch(name)
            if found is None:
                archive.writestr(name, book.read(name))
                continue
            rows, count = sheets[int(found[1]) - 1] if sheets else (io.BytesIO(), 0)
            head, tail = _MARK.split(book.read(name).decode(), maxsplit=1)
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(_EXTENT.sub(rf'<dimension ref="\g<1>{count + 1}"/>', head).encode())
                rows.seek(0)
                shutil.copyfileobj(rows, member, 1 << 20)
                member.write(tail.encode())
