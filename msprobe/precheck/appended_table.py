"""Tables that grow by whole lines while a check runs, as files of the documented format.

UTF-8 with a byte order mark; a blank cell is a space. Lines are written by one call of the system, so a kill leaves
none in part.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.safe_files import create_new, open_private, write_atomic
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


def begin_shared_table(path: Path, columns: Sequence[str]) -> None:
    """Make a table with its head, without a mark, unless another process has made it: several may append to it.

    Raises:
        OSError: it cannot be made.
    """
    if path.exists():
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.close(create_new(temporary))
        _write(temporary, [columns])
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # in one step: nobody sees a table without its head
    finally:
        temporary.unlink(missing_ok=True)


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


def keep_lines(path: Path, columns: Sequence[str], is_kept: Callable[[str], bool]) -> None:
    """Rewrite a table, in one step, with its whole lines whose first cell is kept.

    Raises:
        ReadError: it cannot be read, or has other columns.
        OSError: it cannot be written.
    """
    lines = [line for line in read_lines(path, columns) if is_kept(line[0])]
    write_atomic(path, [_content([columns, *lines], _MARK)])


def _content(lines: Sequence[Sequence[str]], mark: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[str(safe_cell(cell)) for cell in line] for line in lines])
    return (mark + text.getvalue()).encode("utf-8", "backslashreplace")


def _write(path: Path, lines: Sequence[Sequence[str]], mark: str = "") -> None:
    descriptor = open_private(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, _content(lines, mark))
    except OSError as error:  # a descriptor has no name
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)
