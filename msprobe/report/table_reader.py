"""Reads the result tables of ``msprobe compare``, csv or xlsx; cells with numbers become numbers."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.safe_files import regular
from msprobe.core.store.zip_bombs import UNREADABLE_ZIP, swollen_member
from msprobe.report.workbook_size import swollen_tables

Table = tuple[Sequence[str], list[dict[str, Any]]]
"""The column titles, and the rows by title."""


def read_table(path: Path) -> Table:
    """Return titles and rows of a table; the sheets of a workbook are read one after the other.

    Raises:
        ReadError: the file is damaged.
    """
    lines = _read_workbook(path) if path.suffix == ".xlsx" else _read_csv(path)
    if not lines:
        raise ReadError(f"{path}: empty, not even a title line")
    titles = [str(title) for title in lines[0]]
    if any(len(line) != len(titles) for line in lines):
        number = next(number for number, line in enumerate(lines, 1) if len(line) != len(titles))
        raise ReadError(f"{path}: line {number} has {len(lines[number - 1])} cells, the title line {len(titles)}")
    return titles, [dict(zip(titles, line, strict=True)) for line in lines[1:]]


def _read_csv(path: Path) -> list[list[Any]]:
    try:
        with regular(path).open(encoding="utf-8", newline="") as file, _allow_long_cells(path.stat().st_size):
            lines = list(csv.reader(file))
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror})") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: not a table ({error})") from error
    return [lines[0], *([_value(cell) for cell in line] for line in lines[1:])] if lines else []


@contextmanager
def _allow_long_cells(size: int) -> Iterator[None]:
    """Allow cells as long as the file while the block runs; the reader of Python refuses longer ones by default."""
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, size))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _value(cell: str) -> Any:
    """Return a number for a cell that is one; else the text, without the quote that protects it from spreadsheets."""
    try:
        return int(cell) if cell.lstrip("-").isdigit() else float(cell)
    except ValueError:
        return cell[1:] if cell.startswith("'") else cell


def _read_workbook(path: Path) -> list[list[Any]]:
    import python_calamine

    try:
        with zipfile.ZipFile(regular(path)) as archive:
            _refuse(path, swollen_member(archive))
            book = python_calamine.CalamineWorkbook.from_path(str(path))
            _refuse(path, swollen_tables(archive, len(book.sheet_names)))
        pages = [book.get_sheet_by_name(name).to_python() for name in book.sheet_names]
    except (python_calamine.CalamineError, *UNREADABLE_ZIP) as error:
        raise ReadError(f"{path}: not a workbook ({error_text(error)})") from error
    lines: list[list[Any]] = []
    for page in pages:
        lines += page[1:] if lines and page and page[0] == lines[0] else page
    return [[_whole(cell) for cell in line] for line in lines]


def _refuse(path: Path, swollen: str) -> None:
    """Raise ReadError for a workbook that stands for more than its file: the reader ends the process then."""
    if swollen:
        raise ReadError(f"{path}: {swollen}; no table of msprobe")


def _whole(cell: Any) -> Any:
    """Return an int for a float without a fraction: workbooks have only one type of number."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
