"""One csv file per source that is appended to for the whole run: ``{source}_part{number}.csv``.

A long run makes a handful of files in place of one for each span of steps. A part that has grown beyond ``most_bytes``
is followed by the next one, between two steps. ``msprobe data2db`` reads them like the documented files.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msprobe.monitor.rows import Row
from msprobe.monitor.sinks.csv_files import columns_of
from msprobe.monitor.sinks.step_lines import StepLines

MOST_BYTES: Final = 256 << 20


class AppendFiles:
    """Writes rows with all digits, in the columns of the first version of the monitor (implements ``RowSink``).

    A cell is empty where a tensor has no such value, and ``nan`` for NaN.

    Args:
        folder: made with the first row.
        most_bytes: the size from which on a new part begins.
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most = most_bytes
        self._parts: dict[str, int] = {}

    def write(self, step: int, rows: Sequence[Row]) -> None:
        """Append the rows of one step.

        Raises:
            OSError: a file cannot be written.
        """
        lines = StepLines()
        for row in rows:
            lines.add(row.source.name, functools.partial(columns_of, row), _cells(row))
        lines.append_to(self._folder, self._part)

    def close(self) -> None:
        """Nothing is open between two steps."""

    def _part(self, name: str, title: str) -> Path:
        """Return the file that gets the next rows; one that is full, or has other columns, is followed by the next."""
        number = self._parts.get(name, 0)
        while not self._fits(self._path(name, number), title):
            number += 1
        self._parts[name] = number
        return self._path(name, number)

    def _fits(self, path: Path, title: str) -> bool:
        try:
            if path.stat().st_size >= self._most:
                return False
            with path.open("rb") as file:
                head = file.readline()
        except FileNotFoundError:
            return True
        return head in {b"", f"{title}\n".encode()}

    def _path(self, name: str, number: int) -> Path:
        return self._folder / f"{name}_part{number:04}.csv"


def _cells(row: Row) -> list[Any]:
    micro = [] if row.micro_step is None else [row.micro_step]
    return [row.stage, row.label, row.step, *micro, *map(_cell, row.values)]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return list(value) if isinstance(value, tuple) else value
