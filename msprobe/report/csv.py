"""Result tables as CSV: private to the user, never over an existing file, safe to open in a spreadsheet."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

from msprobe.compare.rows import CompareRow
from msprobe.core.store.atomic import FILE_MODE
from msprobe.numerics.metrics.statistics import Cell

_FORMULA = tuple("=+-@%\t\r＝＋－＠％")
MOST_ROWS = 1_000_000


def safe_cell(cell: Cell) -> Cell:
    """The cell with a leading ``'`` where a spreadsheet would run it; infinities get the leading blank readers
    expect.

    Texts that are numbers (``-1.5``, ``-inf``) stay as they are.
    """
    if isinstance(cell, str):
        risky = (cell.startswith(_FORMULA) and not _is_number(cell)) or _hidden(cell)
        return "'" + cell if risky else cell
    if isinstance(cell, float) and math.isinf(cell):
        return f" {cell}"
    return cell


def _hidden(text: str) -> bool:
    """True where a separator that some spreadsheets use is followed by a formula."""
    return ";" in text and any(part.lstrip().startswith(("=", "+", "@")) for part in text.split(";")[1:])


def _is_number(text: str) -> bool:
    try:
        float(text[:-1] if text.endswith("%") else text)
    except ValueError:
        return False
    return True


def new_file(folder: Path, stem: str, suffix: str = ".csv") -> tuple[Path, int]:
    """Create ``stem + suffix``, or the first free ``stem_1``, ``stem_2``…; returns path and file descriptor.

    Raises:
        OSError: the folder cannot be written.
    """
    number = 0
    while True:
        path = folder / f"{stem}{f'_{number}' if number else ''}{suffix}"
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        except FileExistsError:
            number += 1


def write_table(folder: Path, stem: str, columns: Sequence[str], rows: Iterable[CompareRow]) -> list[Path]:
    """Write rows below a title line and return the files; more than a million rows go to further ``_part_`` files.

    Raises:
        OSError: a file cannot be written.
    """
    iterator = iter(rows)
    paths: list[Path] = []
    more = True
    while more:
        part = f"{stem}_part_{len(paths)}" if paths else stem
        path, descriptor = new_file(folder, part)
        paths.append(path)
        with os.fdopen(descriptor, "w", 1 << 20, encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(",".join(columns) + "\n")
            file.writelines(map(_line, islice(iterator, MOST_ROWS)))
            following = next(iterator, None)
            more = following is not None
            iterator = iter(()) if following is None else chain((following,), iterator)
    return paths


def _line(row: CompareRow) -> str:
    middle = row.middle if isinstance(row.middle, str) else ",".join([_field(cell) for cell in row.middle])
    head = ",".join([_SEEN.get(cell) or _field(cell) for cell in row.head])
    tail = ",".join([_SEEN.get(cell) or _field(cell) for cell in row.tail])
    return f"{head},{middle},{tail}\n"


def _field(cell: Cell) -> str:
    """The text of a cell in the file: safe, and quoted where the format needs it."""
    if type(cell) is float:
        return repr(cell) if -math.inf < cell < math.inf else f" {cell}"
    text = str(safe_cell(cell))
    if _SPECIAL(text):
        text = '"' + text.replace('"', '""') + '"'
    if type(cell) is str and len(text) < _SHORT and len(_SEEN) < _MOST_SEEN:
        _SEEN[cell] = text
    return text


_SPECIAL = re.compile(r'[,"\r\n]').search
_SHORT, _MOST_SEEN = 24, 4096
_SEEN: dict[Cell, str] = {}
