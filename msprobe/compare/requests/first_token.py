"""Which token of a request differs first: the position of the first row of a tensor that differs beyond tolerance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.comparison import Comparison
from msprobe.compare.differences.whole_tensors import cut_tensor
from msprobe.compare.records.leaves import data_name
from msprobe.compare.requests.request_tensors import RequestPart
from msprobe.compare.table.table import Ranges
from msprobe.core.errors import ReadError
from msprobe.core.store.record_walk import Leaf
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.numerics.verdict import RowKind

Array = NDArray[Any]


def first_token(comparison: Comparison, entry: int) -> int | None:
    """Return the position of the first token that differs in a call.

    Where no tensor of the call has tokens (an argument, a call of one side), the next one that differs tells which.
    None where that is not known, as with statistics of several tokens.
    """
    table = comparison.table
    request = None if table.partial is None else table.partial.request
    if request is None or entry >= len(table.entries):
        return None
    differs = comparison.judged.kind > RowKind.UNCHECKED
    rows = (row for row in range(int(table.starts[entry]), table.row_count) if differs[row] and row in request.tokens)
    row = next(rows, None)
    return None if row is None else _first_in_row(comparison, request, row)


def _first_in_row(comparison: Comparison, request: RequestPart, row: int) -> int | None:
    axis, position = request.tokens[row]
    if axis is None:
        return position
    table, ranges = comparison.table, request.ranges[row]
    target = _tensor(table.target[row], comparison.target.tensor_folder, ranges[0])
    golden = _tensor(table.golden[row], comparison.golden.tensor_folder, ranges[1])
    if target is None or golden is None or target.shape != golden.shape or axis >= target.ndim:
        return None
    others = tuple(number for number in range(target.ndim) if number != axis)
    apart, scale = _apart(target, golden)
    by_token = apart.max(axis=others, initial=0.0)
    beyond = by_token > float(comparison.judged.tolerance[row]) * scale
    return position + int(beyond.argmax() if beyond.any() else by_token.argmax())


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
    name = None if leaf is None else data_name(leaf.raw)
    if name is None or Path(name).name != name:
        return None
    try:
        array = cut_tensor(read_tensor(folder / name), ranges)
    except ReadError:
        return None
    return None if array.dtype.kind not in "fiub" else np.squeeze(array)
