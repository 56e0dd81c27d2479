"""``StepLines``: the rows of one step as lines of csv files, gathered by file and appended at the end of the step."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msprobe.core.store.safe_files import make_folder, open_private


class StepLines:
    """The lines of one step, by the name of their table; the rows of one table have the same columns."""

    def __init__(self) -> None:
        self._texts: dict[str, io.StringIO] = {}
        self._titles: dict[str, str] = {}
        self._lines: dict[str, Any] = {}

    def add(self, table: str, title: Callable[[], Sequence[str]], cells: Sequence[Any]) -> None:
        """Add a line.

        Args:
            table: the name of the table.
            title: makes the titles of its columns; asked for the first line only.
            cells: the line.
        """
        if table not in self._texts:
            self._texts[table], self._titles[table] = io.StringIO(), ",".join(title())
            self._lines[table] = csv.writer(self._texts[table], lineterminator="\n")
        self._lines[table].writerow(cells)

    def append_to(self, folder: Path, path_of: Callable[[str, str], Path]) -> None:
        """Append the lines to their files; a new file begins with the title.

        Args:
            folder: made where there are lines.
            path_of: returns the file of a table with this title; called when the folder is there.

        Raises:
            OSError: a file cannot be written.
        """
        if self._texts:
            make_folder(folder)
        for table, text in self._texts.items():
            title = self._titles[table]
            with os.fdopen(open_private(path_of(table, title), os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
                head = f"{title}\n" if file.tell() == 0 else ""
                file.write(f"{head}{text.getvalue()}".encode())


def span_of(step: int, first: int, length: int) -> str:
    """Return the span of steps that a step is in, as file names have it: ``0-99``."""
    begin = first + (step - first) // length * length
    return f"{begin}-{begin + length - 1}"
