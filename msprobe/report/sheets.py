"""Small workbooks: a sheet per table, rows coloured by their level. Large tables have ``xlsx_table.py``."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msprobe.core.store.safe_files import write_atomic
from msprobe.report.xlsx_table import load_library

_COLOURS = {"error": ("#FFC7CE", "#9C0006"), "warning": ("#FFEB9C", "#7F6000")}
_LONGEST = 32_000
_MOST_ROWS = 1_000_000
_WIDTH = 22


class Sheet(NamedTuple):
    """One sheet: its name, titles, rows of cells, the level of each row, and a note below them."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    levels: Sequence[str]
    note: str = ""


def write_sheets(sheets: Iterable[Sheet], path: Path) -> None:
    """Write a workbook; nothing in it is a formula or a link.

    Raises:
        OSError: it cannot be written.
        MsprobeException: xlsxwriter is not installed.
    """
    data = io.BytesIO()
    with load_library().Workbook(data, {"in_memory": True}) as book:
        head = book.add_format({"bold": True, "bottom": 1, "bg_color": "#D9E1F2"})
        fills = {
            level: book.add_format({"bg_color": fill, "font_color": ink}) for level, (fill, ink) in _COLOURS.items()
        }
        for sheet in sheets:
            _write_sheet(book, sheet, head, fills)
    write_atomic(path, [data.getvalue()])


def _write_sheet(book: Any, sheet: Sheet, head: Any, fills: dict[str, Any]) -> None:
    page = book.add_worksheet(sheet.name)
    page.freeze_panes(1, 0)
    for column, title in enumerate(sheet.columns):
        page.write_string(0, column, title, head)
    for number, (row, level) in enumerate(zip(sheet.rows[:_MOST_ROWS], sheet.levels, strict=False), 1):
        for column, value in enumerate(row):
            _write_cell(page, number, column, value, fills.get(level))
    if sheet.note:
        page.write_string(len(sheet.rows) + 1, 0, sheet.note, fills["warning"])
    page.set_column(0, len(sheet.columns) - 1, _WIDTH)
    page.autofilter(0, 0, max(len(sheet.rows), 1), len(sheet.columns) - 1)


def _write_cell(page: Any, row: int, column: int, value: Any, fill: Any) -> None:
    if value is None or value == "":
        page.write_blank(row, column, None, fill)
    elif isinstance(value, bool):
        page.write_boolean(row, column, value, fill)
    elif isinstance(value, (int, float)) and math.isfinite(value):
        page.write_number(row, column, value, fill)
    else:
        page.write_string(row, column, str(value)[:_LONGEST], fill)
