"""``StepLines``: the rows of one step as lines of csv files, gathered by file and appended at the end of the step."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msprobe.core.store.safe_files import make_folder, open_private


class _Table(NamedTuple):
    """The title of a table, its lines, and what writes into them."""

    title: str
    text: io.StringIO
    writer: Any


class StepLines:
    """The lines of one step, by the name of their table; the rows of one table have the same columns."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    def add(self, table: str, title: Callable[[], Sequence[str]], cells: Sequence[Any]) -> None:
        """Add a line.

        Args:
            table: the name of the table.
            title: makes the titles of its columns; asked for the first line only.
            cells: the line.
        """
        lines = self._tables.get(table)
        if lines is None:
            text = io.StringIO()
            lines = self._tables[table] = _Table(",".join(title()), text, csv.writer(text, lineterminator="\n"))
        lines.writer.writerow(cells)

    def append_to(self, folder: Path, path_of: Callable[[str, str], Path]) -> None:
        """Append the lines to their files; a new file begins with the title.

        Args:
            folder: made where there are lines.
            path_of: returns the file of a table with this title; called when the folder is there.

        Raises:
            OSError: a file cannot be written.
        """
        if self._tables:
            make_folder(folder)
        for table, (title, text, _) in self._tables.items():
            _append(path_of(table, title), title, text.getvalue())


def _append(path: Path, title: str, lines: str) -> None:
    """Append lines to a file, all or none of them: a disk that is full now may have space again at the next step."""
    file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        before = os.lseek(file, 0, os.SEEK_END)
        data = (lines if before else f"{title}\n{lines}").encode()
        try:
            while data:
                data = data[os.write(file, data) :]
        except OSError as error:
            os.ftruncate(file, before)
            raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(file)


def span_of(step: int, first: int, length: int) -> str:
    """Return the span of steps that a step is in, as file names have it: ``0-99``."""
    begin = first + (step - first) // length * length
    return f"{begin}-{begin + length - 1}"
