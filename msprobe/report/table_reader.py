"""Result tables read back, csv or xlsx, with numbers as numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msprobe.core.errors import MsprobeException, ReadError

Table = tuple[Sequence[str], list[dict[str, Any]]]


def read_table(path: Path) -> Table:
    """Titles and rows of a table that ``msprobe compare`` wrote; of a workbook all sheets, one after the other.

    Raises:
        ReadError: the file is damaged.
        MsprobeException: the package that reads workbooks is missing.
    """
    lines = _workbook(path) if path.suffix == ".xlsx" else _text(path)
    if not lines:
        raise ReadError(f"{path}: empty, not even a title line")
    titles = [str(title) for title in lines[0]]
    if any(len(line) != len(titles) for line in lines):
        number = next(at for at, line in enumerate(lines, 1) if len(line) != len(titles))
        raise ReadError(f"{path}: line {number} has {len(lines[number - 1])} cells, the title line {len(titles)}")
    return titles, [dict(zip(titles, line, strict=True)) for line in lines[1:]]


def _text(path: Path) -> list[list[Any]]:
    try:
        with path.open(encoding="utf-8", newline="") as file, _cells_of_any_length(path.stat().st_size):
            lines = list(csv.reader(file))
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror})") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: not a table ({error})") from error
    return [lines[0], *([_value(cell) for cell in line] for line in lines[1:])] if lines else []


@contextmanager
def _cells_of_any_length(size: int) -> Iterator[None]:
    """A recorded text may be longer than the reader of Python expects; it cannot be longer than its file."""
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, size))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _value(cell: str) -> Any:
    """A number where the cell is one; a text that a leading quote protects from spreadsheets loses it."""
    try:
        return int(cell) if cell.lstrip("-").isdigit() else float(cell)
    except ValueError:
        return cell[1:] if cell.startswith("'") else cell


def _workbook(path: Path) -> list[list[Any]]:
    try:
        import python_calamine
    except ImportError:
        reason = f"{path}: reading a workbook needs python-calamine: pip install 'msprobe[report]'"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from None
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        pages = [book.get_sheet_by_name(name).to_python() for name in book.sheet_names]
    except (python_calamine.CalamineError, OSError) as error:
        raise ReadError(f"{path}: not a workbook ({error})") from error
    lines: list[list[Any]] = []
    for page in pages:
        lines += page[1:] if lines and page and page[0] == lines[0] else page
    return [[_whole(cell) for cell in line] for line in lines]


def _whole(cell: Any) -> Any:
    """Workbooks know only one kind of number."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
