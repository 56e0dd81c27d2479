"""Reads the rows that csv files of a monitor have got since they were last read.

A file is read up to its last whole line: a training may be writing it. ``nan`` stands for NaN, and for a tensor that
was not there; the shape tells them apart, which such a tensor does not have.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from msprobe.core.errors import ReadError, error_text, json_text
from msprobe.core.store.safe_files import regular
from msprobe.trend.growing import Point
from msprobe.trend.monitor_files import SCOPES, MonitorFile

_PLACE: Final = frozenset({"vpp_stage", "name", "module_name", "step", "micro_step", "scope"})
_NO_NUMBERS: Final = frozenset({"id", "shape", "dtype"})
_CHUNK: Final = 1 << 22
_FIRST_LINES: Final = 4000
_MOST_HEAD: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file: ``points`` have the micro step in their target; ``read`` is where the next batch begins."""

    points: list[Point]
    read: int


class Form(NamedTuple):
    """Shape and dtype of a tensor as a row has them; "" where its file has no such columns."""

    shape: str
    dtype: str


class CsvRows:
    """One csv file of a monitor.

    Args:
        file: the file.

    Raises:
        ReadError: its first line names no columns of a monitor.
    """

    def __init__(self, file: MonitorFile) -> None:
        self.file = file
        with _opened(file.path) as stream:
            head = stream.readline(_MOST_HEAD)
        self.start = len(head)
        self.complete = head.endswith(b"\n")
        self.titles = next(self._rows(_text(head).strip()), []) if self.complete else []
        self._name = "module_name" if "scope" in self.titles else "name"
        if self.complete and not {"vpp_stage", "step", self._name} <= set(self.titles):
            raise ReadError(f"{file.path}: line 1 has no columns vpp_stage, step and name; it is no file of a monitor")

    @property
    def place(self) -> tuple[Path, int]:
        """Return the path of the file and its rank."""
        return self.file.path, self.file.rank

    def statistics(self) -> list[str]:
        """Return the columns that are numbers."""
        return [title for title in self.titles if title not in _PLACE | _NO_NUMBERS]

    def micro_steps(self) -> int:
        """Return how many micro steps the first steps in the file have."""
        if "micro_step" not in self.titles or "scope" in self.titles:
            return 1
        column = self.titles.index("micro_step")
        with _opened(self.file.path) as stream:
            stream.seek(self.start)
            lines = b"".join(stream.readline(_MOST_HEAD) for _ in range(_FIRST_LINES))
        cells = (row[column] for row in self._rows(_text(lines)) if len(row) > column)
        return 1 + max((int(cell) for cell in cells if cell.isdigit()), default=0)

    def batches(self, begin: int) -> Iterator[Batch]:
        """Yield the rows from a byte of the file on.

        Raises:
            ReadError: a row does not fit its columns, or the file cannot be read.
        """
        position = max(begin, self.start)
        with _opened(self.file.path) as stream:
            stream.seek(position)
            while chunk := stream.read(_CHUNK):
                end = chunk.rfind(b"\n") + 1
                if not end:  # a line that is being written
                    return
                stream.seek(position := position + end)
                yield Batch([point for point, _ in self._points(_text(chunk[:end]))], position)

    def tensors(self) -> Iterator[tuple[Point, Form]]:
        """Yield every row with the form of its tensor.

        Raises:
            ReadError: a row does not fit its columns, or the file cannot be read.
        """
        with _opened(self.file.path) as stream:
            stream.seek(self.start)
            rest = b""
            while chunk := stream.read(_CHUNK):
                present = rest + chunk
                end = present.rfind(b"\n") + 1
                rest = present[end:]
                yield from self._points(_text(present[:end]))

    def _points(self, text: str) -> Iterator[tuple[Point, Form]]:
        titles = self.titles
        place = {title: titles.index(title) for title in _PLACE & set(titles)}
        numbers = [(title, titles.index(title)) for title in self.statistics()]
        shape = titles.index("shape") if "shape" in titles else None
        dtype = titles.index("dtype") if "dtype" in titles else None
        for row in self._rows(text):
            if len(row) != len(titles):
                raise self._wrong(row, f"{len(row)} cells where there are {len(titles)} columns")
            form = Form(row[shape] if shape is not None else "", row[dtype] if dtype is not None else "")
            there = shape is None or _holds_numbers(*form)
            try:
                micro = int(row[place["micro_step"]]) if "micro_step" in place else 0
                target = row[place[self._name]], int(row[place["vpp_stage"]]), micro
                values = {title: _number(row[column], there) for title, column in numbers}
                step = int(row[place["step"]])
            except ValueError as error:
                raise self._wrong(row, str(error)) from error
            yield Point(self._metric(row, place), target, step, values), form

    def _rows(self, text: str) -> Iterator[list[str]]:
        try:
            yield from csv.reader(io.StringIO(text, newline=""))
        except csv.Error as error:
            raise ReadError(f"{self.file.path}: not a table ({error})") from error

    def _metric(self, row: Sequence[str], place: Mapping[str, int]) -> str:
        if self.file.metric:
            return self.file.metric
        scope = row[place["scope"]]
        if scope not in SCOPES:
            raise self._wrong(row, f"unknown scope {json_text(scope)}")
        return SCOPES[scope]

    def _wrong(self, row: Sequence[str], problem: str) -> ReadError:
        return ReadError(f"{self.file.path}: {json_text(','.join(row))[:120]}: {problem}; remove the line")


def _opened(path: Path) -> io.BufferedReader:
    try:
        return regular(path).open("rb")
    except OSError as error:
        raise ReadError(f"{path}: {error_text(error)}") from error


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def _holds_numbers(shape: str, dtype: str) -> bool:
    """Return whether a tensor has values that can be NaN: it was there, and has elements."""
    return shape != "nan" and "0" not in shape.strip("[]").replace(" ", "").split(",") and "bool" not in dtype


def _number(cell: str, there: bool) -> float | None:
    value = float(cell) if cell else None
    return None if value is not None and value != value and not there else value
