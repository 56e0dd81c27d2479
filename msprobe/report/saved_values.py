"""``SingleComparator`` compares two folders of ``SingleSave``, value by value, and writes one CSV table per name.

    SingleComparator.compare("dump_train", "dump_rollout", "out")        # out/{name}.csv

A value that only one side has gets a row too, and so do values of different shapes: the column ``note`` says so, and
the figures are empty.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.errors import FileCheckException
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.report.csv_table import safe_cell

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
)
_FILE = re.compile(r"step(\d+)/rank(\d+)/micro_step(\d+)/(.+)\.npy\Z")

SaveKey = tuple[int, int, int, str]
"""Step, rank, micro step and id of a saved value."""
Cells = tuple[Any, ...]


class SingleComparator:
    """Compares what ``SingleSave`` wrote in two runs."""

    @classmethod
    def compare(
        cls, dir1: str, dir2: str, output_path: str = "./msprobe_compare_output", num_processes: int = 8
    ) -> list[Path]:
        """Write one table for each name that either folder has, and return the files.

        The relative error is ``|a - b| / max(|a|, |b|)``, 0 where both are equal. NaN equals NaN only.

        Args:
            dir1, dir2: the ``dump_path`` of two ``SingleSave`` objects.
            output_path: where the tables go; tables of the same name are replaced.
            num_processes: accepted, without effect: one process reads as fast as the disk.

        Raises:
            FileCheckException: a folder holds nothing that SingleSave wrote.
        """
        sides = [_find_values(Path(folder)) for folder in (dir1, dir2)]
        output = Path(output_path)
        make_folder(output)
        written = []
        for name in sorted(sides[0].keys() | sides[1].keys()):
            path = output / f"{name}.csv"
            write_atomic(path, [_table(sides[0].get(name, {}), sides[1].get(name, {})).encode("utf-8-sig")])
            written.append(path)
        return written


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


def _find_values(folder: Path) -> dict[str, dict[SaveKey, Path]]:
    """Return the saved files by name, then by key."""
    values: dict[str, dict[SaveKey, Path]] = {}
    for path in folder.glob("data/*/step*/rank*/micro_step*/*.npy"):
        name = path.parents[3].name
        match = _FILE.search(path.as_posix())
        if match is not None:
            step, rank, micro, stem = match.groups()
            key = stem.removeprefix(name).removeprefix(".") or "0"
            values.setdefault(name, {})[int(step), int(rank), int(micro), key] = path
    if not values:
        raise FileCheckException(
            FileCheckException.ILLEGAL_PATH_ERROR,
            f"{folder}: nothing that SingleSave wrote (data/NAME/step0/...) is there",
        )
    return values


def _table(first: dict[SaveKey, Path], second: dict[SaveKey, Path]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for key in sorted(first.keys() | second.keys(), key=_order):
        writer.writerow([safe_cell(cell) for cell in (*key, *_row(first.get(key), second.get(key)))])
    return text.getvalue()


def _row(first: Path | None, second: Path | None) -> Cells:
    """Return shapes, figures and note of one value."""
    shapes: list[str | None] = [None, None]
    arrays = []
    for side, path in enumerate((first, second)):
        if path is not None:
            arrays.append(np.load(path, allow_pickle=False))
            shapes[side] = str(list(arrays[-1].shape))
    if first is None or second is None:
        return (*shapes, *[None] * 6, f"only in {'dir2' if first is None else 'dir1'}")
    if arrays[0].shape != arrays[1].shape:
        return (*shapes, *[None] * 6, "shapes differ")
    return (*shapes, *agreement(*arrays).cells, None)


def _order(key: SaveKey) -> tuple[Any, ...]:
    """Return the sort key of a value. Numbers in its id count as numbers: ``2`` comes before ``10``."""
    return (*key[:3], list(_id_parts(key[3])))


def _id_parts(text: str) -> Iterator[tuple[int, int, str]]:
    for part in text.split("."):
        yield (0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part)
