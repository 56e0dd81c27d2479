"""Read and write ``statistic.csv``: one row per tensor of a kernel, as MindSpore's runtime writes it on Ascend."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.core.errors import ReadError
from msprobe.core.store.atomic import write_atomic

STATISTIC_HEADER = (
    "Op Type",
    "Op Name",
    "Task ID",
    "Stream ID",
    "Timestamp",
    "IO",
    "Slot",
    "Data Size",
    "Data Type",
    "Shape",
)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class StatisticRow:
    """One tensor: the kernel that it belongs to and its statistics by column.

    ``shape`` is in elements, ``size`` in bytes, ``time`` in microseconds.
    """

    op: str
    name: str
    task: str
    stream: str
    time: int
    side: str
    slot: int
    size: int
    dtype: str
    shape: tuple[int, ...]
    values: dict[str, Any] = field(default_factory=dict)


def write_statistics(path: Path, rows: Iterable[StatisticRow], columns: Sequence[str]) -> None:
    """Write ``rows`` with these statistics' ``columns``; a value that does not exist is an empty cell."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*STATISTIC_HEADER, *columns])
    for row in rows:
        own = (row.op, row.name, row.task, row.stream, row.time, row.side, row.slot, row.size, row.dtype.lower())
        cells = [_cell(row.values.get(column)) for column in columns]
        table.writerow([*own, f"({', '.join(map(str, row.shape))})", *cells])
    write_atomic(path, [text.getvalue().encode()])


def read_statistics(path: Path) -> Iterator[StatisticRow]:
    """Yield the rows of ``path``.

    Raises:
        ReadError: it cannot be read, or a column is missing or holds something else.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read ({error})") from error
    for number, record in enumerate(csv.DictReader(io.StringIO(text)), 2):
        row = {key.strip(): (value or "").strip() for key, value in record.items() if isinstance(key, str)}
        try:
            yield _row(row)
        except (KeyError, ValueError) as error:
            raise ReadError(f"{path}, line {number}: no row of a statistic.csv ({error!r})") from error


def _row(row: dict[str, str]) -> StatisticRow:
    shape = tuple(int(size) for size in _DIGITS.findall(row["Shape"]))
    values = {column: _value(column, text) for column, text in row.items() if column not in STATISTIC_HEADER}
    return StatisticRow(
        row["Op Type"],
        row["Op Name"],
        row["Task ID"],
        row["Stream ID"],
        int(row["Timestamp"]),
        row["IO"].lower(),
        int(row["Slot"]),
        int(row["Data Size"] or 0),
        row["Data Type"],
        shape,
        values,
    )


def _value(column: str, text: str) -> Any:
    if text == "" or text in ("N/A", "null"):
        return None
    if column.endswith("Count"):
        return int(float(text))
    if column.endswith("Value"):
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    return text


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return "" if value is None else repr(value) if isinstance(value, float) else value
