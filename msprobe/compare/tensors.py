"""Whole-tensor differences for the rows of a table, read and computed in parallel threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from msprobe.compare.calibration import GOLDEN, TARGET, Calibration
from msprobe.compare.cells import data_name
from msprobe.compare.items import is_tensor
from msprobe.compare.table import LeafTable
from msprobe.core.cores import cpu_count
from msprobe.core.errors import ReadError
from msprobe.core.store.formats import read_tensor
from msprobe.numerics.metrics.custom import FAILED, Metric
from msprobe.numerics.metrics.elements import SAME, element_difference
from msprobe.numerics.metrics.tensor import UNSUPPORTED, TensorDifference, tensor_difference

_MOST_WORKERS = 8


def tensor_differences(
    table: LeafTable,
    target: Path,
    golden: Path,
    metrics: Sequence[Metric] = (),
    calibration: Calibration | None = None,
) -> list[TensorDifference | None]:
    """One difference per row that has a tensor on both sides, None for the others and where neither has a file; a
    failure is a stated problem. ``metrics`` are computed too; ``calibration`` multiplies tensors first."""
    jobs = []
    for row, (ours, theirs) in enumerate(zip(table.target, table.golden, strict=True)):
        if row in table.together:  # parts of a fused layer have no file that is the whole
            continue
        if ours is not None and theirs is not None and is_tensor(ours.raw) and is_tensor(theirs.raw):
            left, right = data_name(ours.raw), data_name(theirs.raw)
            if left is not None or right is not None:
                jobs.append((row, left, right, str(ours.raw.get("dtype", ""))))
    found: list[TensorDifference | None] = [None] * table.rows
    with ThreadPoolExecutor(min(_MOST_WORKERS, cpu_count())) as pool:
        results = pool.map(
            lambda job: _difference((target, job[1]), (golden, job[2]), job[3], metrics, calibration), jobs
        )
        for (row, *_), difference in zip(jobs, results, strict=True):
            found[row] = difference
    return found


def _difference(
    target: tuple[Path, str | None],
    golden: tuple[Path, str | None],
    dtype: str,
    metrics: Sequence[Metric],
    calibration: Calibration | None,
) -> TensorDifference:
    (folder, left), (other, right) = target, golden
    if left is None or right is None:
        problem = f"the {'target' if left is None else 'golden'} has no tensor file"
        return TensorDifference(UNSUPPORTED, problem=problem, unread=True, custom=(FAILED,) * len(metrics))
    try:
        n, b = read_tensor(_inside(folder, left)), read_tensor(_inside(other, right))
        multiplied = calibration is not None and (calibration.has(TARGET, left) or calibration.has(GOLDEN, right))
        if calibration is not None and multiplied:
            n, b = calibration.applied(TARGET, left, n), calibration.applied(GOLDEN, right, b)
    except ReadError as error:
        custom = (FAILED,) * len(metrics)
        return TensorDifference(UNSUPPORTED, problem=error.error_info, unread=True, custom=custom)
    found = tensor_difference(n, b)
    if multiplied:
        found = replace(found, calibrated=True)
    n, b = np.squeeze(n), np.squeeze(b)
    if n.shape != b.shape:
        return replace(found, custom=("shape unmatched",) * len(metrics))
    same = found.relative_max == 0.0 and not found.problem
    cells = [metric.cell(n, b) for metric in metrics]
    return replace(
        found,
        elements=SAME if same else element_difference(n, b, dtype),
        custom=tuple(cell for cell, _ in cells),
        notes=tuple(note for _, note in cells if note),
    )


def _inside(folder: Path, name: str) -> Path:
    if Path(name).name != name:
        raise ReadError(f"data_name {name!r} does not name a file in {folder}")
    return folder / name
