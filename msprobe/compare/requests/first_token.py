"""Which token of a request differs first: the position of the first row of a tensor that differs beyond tolerance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.inputs.slices import cut_tensor
from msprobe.compare.requests.part_choice import read_recorded
from msprobe.compare.table.table import LeafTable, Ranges
from msprobe.core.store.record_walk import Leaf
from msprobe.numerics.verdict import Judged, RowKind

Array = NDArray[Any]


def first_token(table: LeafTable, judged: Judged, folders: tuple[Path, Path], entry: int) -> tuple[str, int | None]:
    """Return the request that is compared, and the position of the first of its tokens that differs in a call.

    Where no tensor of the call has tokens (an argument, a call of one side), the next one that differs tells which.
    None where that is not known, as with statistics of several tokens.

    Args:
        table: both dumps, of which a request is compared.
        judged: the verdicts of all rows.
        folders: the tensor files of both sides.
        entry: the call.
    """
    request = None if table.partial is None else table.partial.request
    if request is None:
        return "", None
    first = int(table.starts[min(entry, len(table.entries))])
    rows = (row for row in range(first, table.row_count) if judged.kind[row] > RowKind.UNCHECKED)
    row = next((row for row in rows if row in request.tokens), None)
    if row is None:
        return request.id, None
    (axis, position), ranges = request.tokens[row], request.ranges[row]
    if axis is not None:
        target = _tensor(table.target[row], folders[0], ranges[0])
        golden = _tensor(table.golden[row], folders[1], ranges[1])
        offset = _first_index(target, golden, axis, float(judged.tolerance[row]))
        return request.id, None if offset is None else position + offset
    return request.id, position


def _first_index(target: Array | None, golden: Array | None, axis: int, tolerance: float) -> int | None:
    """Return the first index of an axis at which two tensors differ by more than the tolerance of the whole.

    Where none does (their norms differ), it is that of the largest difference.
    """
    if target is None or golden is None or target.shape != golden.shape or axis >= target.ndim:
        return None
    others = tuple(number for number in range(target.ndim) if number != axis)
    apart, scale = _apart(target, golden)
    by_token = apart.max(axis=others, initial=0.0)
    beyond = by_token > tolerance * scale
    return int(beyond.argmax() if beyond.any() else by_token.argmax())


def _apart(target: Array, golden: Array) -> tuple[Array, float]:
    """Return how far the elements are apart, and the largest finite value; infinity where one side is not finite."""
    left, right = target.astype(np.float64), golden.astype(np.float64)
    finite = np.isfinite(left) & np.isfinite(right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.where(finite, np.abs(left - right), np.inf))
    sizes = np.maximum(np.abs(left), np.abs(right))[finite]
    return apart, float(sizes.max(initial=0.0))


def _tensor(leaf: Leaf | None, folder: Path, ranges: Ranges | None) -> Array | None:
    """Return the compared part of a recorded tensor without axes of length 1; None where it has no readable file."""
    array = read_recorded(leaf, folder)
    return None if array is None else np.squeeze(cut_tensor(array, ranges))
