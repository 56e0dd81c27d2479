"""Whole-tensor differences for the rows of a table, read and computed in parallel threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msprobe.compare.cells import data_name
from msprobe.compare.table import LeafTable
from msprobe.core.errors import ReadError
from msprobe.core.store.formats import read_tensor
from msprobe.numerics.metrics.tensor import UNSUPPORTED, TensorDifference, tensor_difference

_MOST_WORKERS = 8


def tensor_differences(table: LeafTable, target: Path, golden: Path) -> list[TensorDifference | None]:
    """One difference per row that has tensor data on both sides, None for the others; a failure is a stated
    problem."""
    jobs = []
    for row, (ours, theirs) in enumerate(zip(table.target, table.golden, strict=True)):
        if ours is not None and theirs is not None:
            left, right = data_name(ours.raw), data_name(theirs.raw)
            if left is not None or right is not None:
                jobs.append((row, left, right))
    found: list[TensorDifference | None] = [None] * table.rows
    with ThreadPoolExecutor(min(_MOST_WORKERS, os.cpu_count() or 1)) as pool:
        results = pool.map(lambda job: _difference(target, job[1], golden, job[2]), jobs)
        for (row, _, _), difference in zip(jobs, results, strict=True):
            found[row] = difference
    return found


def _difference(target: Path, left: str | None, golden: Path, right: str | None) -> TensorDifference:
    if left is None or right is None:
        return TensorDifference(UNSUPPORTED, problem=f"the {'target' if left is None else 'golden'} has no tensor file")
    try:
        return tensor_difference(read_tensor(_inside(target, left)), read_tensor(_inside(golden, right)))
    except ReadError as error:
        return TensorDifference(UNSUPPORTED, problem=error.error_info)


def _inside(folder: Path, name: str) -> Path:
    if Path(name).name != name:
        raise ReadError(f"data_name {name!r} does not name a file in {folder}")
    return folder / name
