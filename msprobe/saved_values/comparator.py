"""``SingleComparator`` compares two folders of ``SingleSave``, value by value, and writes tables, one per name.

    SingleComparator.compare("dump_train", "dump_rollout", "out")        # out/{name}.csv and out/{name}.xlsx

A value that only one side has gets a row too, and so do values of different shapes: the column ``note`` says so, and
the figures are empty. ``Result`` is the verdict of ``numerics/array_verdict.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.errors import ReadError
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.numerics.array_verdict import judge_arrays
from msprobe.report.csv_table import small_table
from msprobe.report.sheets import Sheet, write_sheets
from msprobe.saved_values.folder import SavedValue, SaveKey, Values, find_values, order_of

COLUMNS = (
    "step",
    "rank",
    "micro_step",
    "id",
    "shape1",
    "shape2",
    "相同元素百分比(%)",  # equal elements
    "首个不匹配元素索引",  # index of the first different one, in row-major order
    "最大绝对误差",  # largest absolute error
    "最大相对误差",  # largest relative error
    "误差在千分之一内元素占比(%)",  # elements within 0.1 %
    "误差在百分之一内元素占比(%)",  # elements within 1 %
    "note",
    "Result",
)
Cells = tuple[Any, ...]
_ONLY = ("only in dir1", "only in dir2")
_UNREADABLE = "a file cannot be read"
_MISSING = {*_ONLY, _UNREADABLE}


class SingleComparator:
    """Compares what ``SingleSave`` wrote in two runs."""

    @classmethod
    def compare(
        cls, dir1: str, dir2: str, output_path: str = "./msprobe_compare_output", num_processes: int = 8
    ) -> list[Path]:
        """Write one table for each name that either folder has, as csv and xlsx, and return the csv files.

        The relative error is ``|a - b| / max(|a|, |b|)``, 0 where both are equal. NaN equals NaN only.

        Args:
            dir1, dir2: the ``dump_path`` of two ``SingleSave`` objects.
            output_path: where the tables go; tables of the same name are replaced.
            num_processes: accepted, without effect: one process reads as fast as the disk.

        Raises:
            FileCheckException: a folder holds nothing that SingleSave wrote.
        """
        sides = find_values(Path(dir1)), find_values(Path(dir2))
        return [table.path for table in compare_values(sides, sides[0].keys() | sides[1].keys(), Path(output_path))]


@dataclass(frozen=True, slots=True)
class ValueTable:
    """The table of one name: its csv file, and its rows."""

    name: str
    path: Path
    rows: list[Cells]

    @property
    def differing(self) -> list[Cells]:
        """Return the rows of values that differ."""
        return [row for row in self.rows if row[-1] == "error" and row[-2] not in _MISSING]

    @property
    def missing(self) -> list[Cells]:
        """Return the rows of values that one side lacks or whose file cannot be read."""
        return [row for row in self.rows if row[-2] in _MISSING]


def compare_values(sides: tuple[Values, Values], names: Iterable[str], output: Path) -> list[ValueTable]:
    """Write what ``SingleComparator.compare`` writes for these names, and return the tables.

    Raises:
        OSError: a table cannot be written.
    """
    make_folder(output)
    return [_write(output, name, _rows(sides[0].get(name, {}), sides[1].get(name, {}))) for name in sorted(names)]


def write_table(path: Path, columns: tuple[str, ...], rows: list[Cells], levels: list[str]) -> None:
    """Write rows as csv at ``path`` and as xlsx beside it.

    Raises:
        OSError: a file cannot be written.
    """
    write_atomic(path, [small_table(columns, rows).encode("utf-8-sig")])
    write_sheets([Sheet("Sheet1", columns, rows, levels)], path.with_name(path.name.removesuffix(".csv") + ".xlsx"))


def _write(output: Path, name: str, rows: list[Cells]) -> ValueTable:
    path = output / (file_name(name, "....csv").removesuffix("....csv") + ".csv")
    write_table(path, COLUMNS, rows, [row[-1] for row in rows])
    return ValueTable(name, path, rows)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two arrays of one shape agree; all is None for arrays without elements.

    Attributes:
        equal: share of equal elements, in percent.
        first: index of the first different element, in row-major order; None when all are equal.
        absolute, relative: largest errors.
        within_thousandth, within_hundredth: shares of elements with a relative error of at most 0.1 % and 1 %, in
            percent.
    """

    equal: float | None
    first: int | None
    absolute: float | None
    relative: float | None
    within_thousandth: float | None
    within_hundredth: float | None

    @property
    def cells(self) -> Cells:
        """Return the figures in the order of the columns."""
        return (
            self.equal,
            self.first,
            self.absolute,
            self.relative,
            self.within_thousandth,
            self.within_hundredth,
        )


def agreement(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> Agreement:
    """Compare two arrays of equal shape. Integers beyond 2**53 are compared exactly; errors are in float64."""
    if first.size == 0:
        return Agreement(None, None, None, None, None, None)
    equal = ((first == second) | ((first != first) & (second != second))).ravel()
    wide = np.complex128 if "c" in (first.dtype.kind, second.dtype.kind) else np.float64
    a, b = first.astype(wide).ravel(), second.astype(wide).ravel()
    with np.errstate(all="ignore"):
        absolute = _infinite_unless(equal, np.abs(a - b))
        relative = _infinite_unless(equal, absolute / np.maximum(np.abs(a), np.abs(b)))
    different = np.flatnonzero(~equal)
    return Agreement(
        equal=100.0 * float(equal.mean()),
        first=int(different[0]) if different.size else None,
        absolute=float(absolute.max()),
        relative=float(relative.max()),
        within_thousandth=100.0 * float((relative <= 1e-3).mean()),
        within_hundredth=100.0 * float((relative <= 1e-2).mean()),
    )


def _infinite_unless(equal: np.ndarray[Any, Any], error: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the error: 0 where both are equal, infinite where it is NaN (one side is NaN or infinite)."""
    return np.where(equal, 0.0, np.where(np.isnan(error), np.inf, error))


def _shape_text(shape: tuple[int, ...] | None) -> str | None:
    return None if shape is None else str(list(shape))


def _rows(first: dict[SaveKey, SavedValue], second: dict[SaveKey, SavedValue]) -> list[Cells]:
    keys = sorted(first.keys() | second.keys(), key=order_of)
    return [(*key, *_row(first.get(key), second.get(key))) for key in keys]


def _row(first: SavedValue | None, second: SavedValue | None) -> Cells:
    """Return shapes, figures, note and verdict of one value."""
    if first is None or second is None:
        shapes = [None if value is None else _shape_text(value.shape()) for value in (first, second)]
        return (*shapes, *[None] * 6, _ONLY[first is None], "error")
    try:
        a, b = first.read(), second.read()
    except ReadError:
        return (*[_shape_text(value.shape()) for value in (first, second)], *[None] * 6, _UNREADABLE, "error")
    shapes = [str(list(array.shape)) for array in (a, b)]
    if a.shape != b.shape:
        return (*shapes, *[None] * 6, "shapes differ", "error")
    verdict = judge_arrays(a, b, first.dtype or a.dtype.name, second.dtype or b.dtype.name)
    types = [value.dtype or array.dtype.name for value, array in ((first, a), (second, b))]
    notes = [] if types[0] == types[1] else [f"{types[0]} against {types[1]}"]
    notes += [f"{types[0]}, saved as float32"] if types[0] == types[1] and first.dtype else []
    notes += [verdict.reason] if verdict.reason else []
    return (*shapes, *agreement(a, b).cells, "; ".join(notes) or None, verdict.level)
