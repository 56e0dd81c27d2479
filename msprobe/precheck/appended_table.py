"""Tables that grow by whole lines while a check runs, as files of the documented format.

UTF-8 with a byte order mark; a blank cell is a space. Lines are written by one call of the system, so a kill leaves
none in part.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.safe_files import create_new, open_private
from msprobe.report.csv_table import safe_cell

BLANK = " "
_MARK = "\ufeff"


def create_table(path: Path, columns: Sequence[str]) -> None:
    """Make a table with its head; it is private to this user.

    Raises:
        OSError: it cannot be made, or is there already.
    """
    os.close(create_new(path))
    _write(path, [columns], mark=_MARK)


def append_lines(path: Path, lines: Sequence[Sequence[str]]) -> None:
    """Append lines.

    Raises:
        OSError: they cannot be written.
    """
    _write(path, lines)


def read_lines(path: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of a table that have all columns.

    Raises:
        ReadError: it cannot be read, or has other columns.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            head = next(reader, None)
            if head is None or tuple(head) != tuple(columns):
                raise ReadError(f"{path}: not this kind of table, its first line is not {','.join(columns[:4])}...")
            yield from (line for line in reader if len(line) == len(columns))
    except (OSError, UnicodeError, csv.Error) as error:
        raise ReadError(f"{path}: cannot be read: {error_text(error)}") from error


def end_line(path: Path) -> None:
    """End the last line of a table whose writer was stopped by a full disk."""
    with path.open("rb+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _write(path: Path, lines: Sequence[Sequence[str]], mark: str = "") -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[str(safe_cell(cell)) for cell in line] for line in lines])
    descriptor = open_private(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, (mark + text.getvalue()).encode("utf-8", "backslashreplace"))
    except OSError as error:  # a descriptor has no name
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)
