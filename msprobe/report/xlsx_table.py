"""Result tables as a workbook: numbers are numbers, rows are coloured by verdict, the head stays and has filters.

xlsxwriter makes the book with its styles, filters and title rows. The rows below are written here as the XML of the
format (ECMA-376 part 1, 18.3.1.73 ``row`` and 18.3.1.4 ``c``), because a call of xlsxwriter per cell, in its mode of
constant memory, makes the whole command take 2.9 times as much CPU (5.8 s against 2.0 s for 10,000 entries). They go to
a temporary file as they come, so that memory does not grow with the table, and then replace a marked row of the book.

Texts are written as texts: nothing in a dump can become a formula or a link. NaN and infinities, for which the format
has no numbers, are the texts ``nan``, ``inf`` and ``-inf``.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any

from msprobe.compare.rows.columns import FIRST_WORD, INTEGER, Column, NumberColumn, TextColumn
from msprobe.compare.rows.rows import Chunks, RowBlock, RowWriter
from msprobe.compare.table.float_pairs import float_texts
from msprobe.core.errors import MsprobeException, error_text
from msprobe.numerics.metrics.statistics import Cell
from msprobe.report.result_file import publish, unfinished

ROWS_OF_SHEET = 1_048_500
_FIRST_ROW = 2  # below the titles
_LONGEST = 32_767
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_ESCAPE = re.compile("_(x[0-9A-Fa-f]{4}_)")
_NOT_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
_WIDE, _NARROW = 40, 14
_WIDE_COLUMNS = {"NPU Name", "Bench Name", "Err_message", "NPU_Stack_Info"}
_COLOURS = {"error": ("#FFC7CE", "#9C0006"), "warning": ("#FFEB9C", "#7F6000")}
_PERCENT = "[<=0]0.0000%;[<0.000001]0.00E+00%;0.0000%"
"""Percentages with four digits behind the point; those below 0.0001 % with their own digits."""
_SHEET = re.compile(r"xl/worksheets/sheet(\d+)\.xml")
_MARK = re.compile(r'<row r="2"[^>]*>.*?</row>', re.DOTALL)
_STYLE = re.compile(r'<row r="2".*?<c r="A2" s="(\d+)"', re.DOTALL)
_EXTENT = re.compile(r'<dimension ref="(A1:[A-Z]+)\d+"/>')


def write_workbook(folder: Path, stem: str, columns: Sequence[str], blocks: Iterable[RowBlock]) -> list[Path]:
    """Write rows below a title line and return the file; rows beyond what a sheet holds go to further sheets.

    Raises:
        OSError: the file cannot be written.
        MsprobeException: xlsxwriter is not installed.
    """
    return write_chunks(folder, stem, columns, row_writer()(blocks, 0))


def row_writer() -> RowWriter:
    """Return a function that yields numbers of rows and these rows as XML; its second argument is the number of the
    first row in its table. No chunk goes beyond the end of a sheet.

    Raises:
        MsprobeException: xlsxwriter is not installed.
    """
    return partial(_chunks, _percent_style())


def _chunks(percent: str, blocks: Iterable[RowBlock], first: int) -> Chunks:
    """Yield rows as XML; ``percent`` is the number of the style of percentages."""
    template = ""
    for block in blocks:
        template = template or _row_template(len(block.columns))
        rows = list(zip(*(_cells(column, percent) for column in block.columns), strict=True))
        while rows:
            number = first % ROWS_OF_SHEET
            part, rows = rows[: ROWS_OF_SHEET - number], rows[ROWS_OF_SHEET - number :]
            numbered = enumerate(part, _FIRST_ROW + number)
            yield len(part), "".join([template.replace("#", str(row)) % cells for row, cells in numbered]).encode()
            first += len(part)


def write_chunks(folder: Path, stem: str, columns: Sequence[str], rows: Chunks) -> list[Path]:
    """Write what ``row_writer`` made of consecutive rows; see ``write_workbook``."""
    with unfinished(folder, stem) as (temporary, descriptor), ExitStack() as stack:
        file = stack.enter_context(os.fdopen(descriptor, "wb"))
        sheets: list[tuple[IO[bytes], int]] = []
        for count, text in rows:
            if not sheets or sheets[-1][1] == ROWS_OF_SHEET:
                sheets.append((stack.enter_context(tempfile.TemporaryFile(dir=folder)), 0))
            sheet, before = sheets[-1]
            sheet.write(text)
            sheets[-1] = sheet, before + count
        book = _empty_book(columns, [count for _, count in sheets] or [0])
        _put_together(file, book, sheets)
        file.flush()
        return [publish(temporary, folder, stem, ".xlsx")]


def load_library() -> Any:
    """Import xlsxwriter and return it.

    Raises:
        MsprobeException: it is not installed.
    """
    try:
        import xlsxwriter
    except ImportError as error:
        reason = f"{error_text(error)}; xlsx needs it (pip install xlsxwriter)"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    return xlsxwriter


# The book without its rows


def _empty_book(columns: Sequence[str], counts: Sequence[int]) -> zipfile.ZipFile:
    """Return a book with a sheet for each number of rows. A sheet has its title row and, as row 2, a mark in the style
    of percentages, which the rows replace."""
    file = io.BytesIO()
    with load_library().Workbook(file, {"in_memory": True}) as book:
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
    """Colour the rows of a sheet by their verdict."""
    from xlsxwriter.utility import xl_col_to_name

    verdict = xl_col_to_name(columns.index("Result"))
    for level, fill in fills.items():
        rule = {"type": "formula", "criteria": f'=${verdict}2="{level}"', "format": fill}
        sheet.conditional_format(1, 0, rows, len(columns) - 1, rule)


def _percent_style() -> str:
    """Return the number of the style of percentages; every book has the same styles."""
    match = _STYLE.search(_empty_book([""], [1]).read("xl/worksheets/sheet1.xml").decode())
    return match[1] if match else "0"


def _put_together(file: IO[bytes], book: zipfile.ZipFile, sheets: Sequence[tuple[IO[bytes], int]]) -> None:
    """Write the book to ``file``, with the rows of each sheet in the place of its mark."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in book.namelist():
            match = _SHEET.fullmatch(name)
            if match is None:
                archive.writestr(name, book.read(name))
                continue
            rows, count = sheets[int(match[1]) - 1] if sheets else (io.BytesIO(), 0)
            head, tail = _MARK.split(book.read(name).decode(), maxsplit=1)
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(_EXTENT.sub(rf'<dimension ref="\g<1>{count + 1}"/>', head).encode())
                rows.seek(0)
                shutil.copyfileobj(rows, member, 1 << 20)
                member.write(tail.encode())


# The rows


def _row_template(columns: int) -> str:
    """Return a row with the sign # for its number, and a place for what follows the address of each cell."""
    return f'<row r="#">{"".join(f"""<c r="{_letters(column)}#"%s""" for column in range(columns))}</row>'


def _cells(column: Column, percent: str) -> list[str]:
    """Return for each row what follows the address of its cell; a percentage is a fraction."""
    if isinstance(column, TextColumn):
        return list(map([_text_cell(word) for word in column.words].__getitem__, column.index.tolist()))
    style = f' s="{percent}"' if column.percent else ""
    texts = float_texts(column.values / 100.0 if column.percent else column.values)
    cells = [f"{style}><v>{text}</v></c>" for text in texts]
    rows = column.codes.nonzero()[0]
    cache: dict[tuple[int, float], str] = {}
    for row, *key in zip(rows.tolist(), column.codes[rows].tolist(), column.values[rows].tolist(), strict=True):
        cell = cache.get((key[0], key[1]))
        if cell is None:
            cell = cache[key[0], key[1]] = _special_cell(column, style, *key)
        cells[row] = cell
    return cells


def _special_cell(column: NumberColumn, style: str, code: int, value: float) -> str:
    """Return the cell of an integer or a word in a number column."""
    if code == INTEGER:
        return f"{style}><v>{int(value)}</v></c>"
    word: Cell = column.words[code - FIRST_WORD]
    return f"{style}><v>{word}</v></c>" if type(word) is int else _text_cell(str(word))


def _text_cell(text: str) -> str:
    """Return a text cell, cut to what the format holds; the format's own escapes stand for control characters."""
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    text = _CONTROL.sub(lambda match: f"_x{ord(match[0]):04X}_", _ESCAPE.sub(r"_x005F_\1", text))
    text = _NOT_XML.sub("\ufffd", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    space = ' xml:space="preserve"' if text != text.strip() else ""
    return f' t="inlineStr"><is><t{space}>{text}</t></is></c>'


def _letters(column: int) -> str:
    """Return the letters of a column: A, B, ... Z, AA, ..."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name
