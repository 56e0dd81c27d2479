"""Statistics of kernels as MindSpore's runtime offers them: computed with numpy, written to and read from files.

``measure`` computes them. Names and columns are those of the runtime (``statistic_category`` and ``statistic.csv``).
Its ``negative zero count`` and ``positive zero count`` count the elements below and above zero.

``statistic.csv`` has one row per tensor of a kernel (``StatisticRow``), as the runtime writes it on Ascend.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.store.safe_files import regular, write_atomic
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.core.tensors.statistics import STATISTICS

COLUMNS = {
    "max": "Max Value",
    "min": "Min Value",
    "avg": "Avg Value",
    "l2norm": "L2Norm Value",
    "count": "Count",
    "negative zero count": "Negative Zero Count",
    "zero count": "Zero Count",
    "positive zero count": "Positive Zero Count",
    "nan count": "NaN Count",
    "negative inf count": "Negative Inf Count",
    "positive inf count": "Positive Inf Count",
    "md5": "MD5",
    "hash:md5": "MD5",
    "hash": "SHA1",
    "hash:sha1": "SHA1",
}
HASHES = frozenset({"MD5", "SHA1"})
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
_RUNTIME_NAMES = {"mean": "avg"}
_HASHES: dict[str, Callable[..., Any]] = {"MD5": hashlib.md5, "SHA1": hashlib.sha1}
_COUNTS: dict[str, Callable[[NDArray[Any]], NDArray[np.bool_]]] = {
    "negative zero count": lambda array: array < 0,
    "zero count": lambda array: array == 0,
    "positive zero count": lambda array: array > 0,
    "nan count": np.isnan,
    "negative inf count": np.isneginf,
    "positive inf count": np.isposinf,
}
_DIGITS = re.compile(r"\d+")


def measure(array: NDArray[Any], dtype: str, categories: Sequence[str]) -> dict[str, Any]:
    """Return the value of each category by its column, in the order of ``categories``.

    An empty or complex tensor has no counts but ``count``. A NaN makes Max, Min, Avg and L2Norm NaN.

    Args:
        array: the elements, of any shape; bfloat16 as float32.
        dtype: the tensor's type as MindSpore prints it; hashes are those of the bytes in this type.
        categories: keys of ``COLUMNS``.
    """
    measured = statistics(array, precision="high")
    values: dict[str, Any] = {
        _RUNTIME_NAMES.get(spec.config_name, spec.config_name): value
        for spec, value in zip(STATISTICS, measured, strict=True)
    }
    values["count"] = int(array.size)
    return {
        COLUMNS[name]: values[name] if name in values else _count_or_hash(array, dtype, name) for name in categories
    }


def _count_or_hash(array: NDArray[Any], dtype: str, name: str) -> int | str | None:
    if name in _COUNTS:
        if array.dtype.kind not in "fiub" or array.size == 0:
            return None
        if name.endswith(("nan count", "inf count")) and array.dtype.kind != "f":
            return 0
        return int(np.count_nonzero(_COUNTS[name](array)))
    return str(_HASHES[COLUMNS[name]](_stored_bytes(array, dtype), usedforsecurity=False).hexdigest())


def _stored_bytes(array: NDArray[Any], dtype: str) -> bytes:
    """Return the bytes of the tensor as the framework stores it."""
    if dtype.lower() == "bfloat16" and array.dtype == np.float32:
        return (array.view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes()
    return array.tobytes()


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
        text = regular(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read ({error})") from error
    for number, record in enumerate(_records(path, text), 2):
        row = {key.strip(): (value or "").strip() for key, value in record.items() if isinstance(key, str)}
        try:
            yield _row(row)
        except (KeyError, ValueError) as error:
            raise ReadError(f"{path}, line {number}: no row of a statistic.csv ({error!r})") from error


def _records(path: Path, text: str) -> Iterator[dict[str | Any, str | Any]]:
    try:
        yield from csv.DictReader(io.StringIO(text, newline=""))
    except csv.Error as error:
        raise ReadError(f"{path}: not a table ({error})") from error


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
