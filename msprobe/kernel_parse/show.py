"""``msprobe parse --show``: type, shape, layout and statistics of each tensor of a file or folder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.tensors.dtypes import DType
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.core.tensors.statistics import NO_STATS, TensorStats
from msprobe.kernel_parse.read import ReadTensor, find_files, read_file
from msprobe.native import measuring

TITLES = ("name", "dtype", "shape", "layout", "max", "min", "mean", "norm")
_NOTHING = ("",) * 3
Row = tuple[str, ...]


def described(path: Path, recursive: bool) -> Iterator[Row]:
    """Yield the rows of ``--show``: name, dtype, shape, layout, largest, smallest, mean, norm; first the titles.

    What cannot be read has a shorter row that ends with the reason.

    Raises:
        ReadError: there is no file.
    """
    yield TITLES
    for file in find_files(path, recursive):
        try:
            tensors = read_file(file)
        except ReadError as error:
            yield file.name, *_NOTHING, error.error_info
            continue
        for tensor in tensors:
            try:
                yield _row(tensor)
            except ReadError as error:
                yield tensor.name, *_NOTHING, error.error_info


def _row(tensor: ReadTensor) -> Row:
    shape, pieces = tensor.pieces(False)
    measured = [(len(piece), _measured(piece, tensor.dtype)) for piece in (one.reshape(-1) for one in pieces)]
    found = _together(measured)
    numbers = (found.max, found.min, found.mean, found.norm)
    return tensor.name, tensor.dtype.name, str(list(shape)), tensor.layout, *map(_number, numbers)


def _measured(bits: NDArray[Any], dtype: DType) -> TensorStats:
    """Return the statistics of contiguous elements, from the compiled kernel where it knows their type."""
    if measuring is None or dtype.code < 0:
        return statistics(bits, dtype.name, "high")
    return TensorStats._make(measuring.summary(bits.ctypes.data, bits.size, dtype.code, True))


def _together(measured: list[tuple[int, TensorStats]]) -> TensorStats:
    """Return the statistics of all elements from those of pieces with their sizes. A NaN in one is a NaN of all."""
    if len(measured) < 2:
        return measured[0][1] if measured else NO_STATS
    odd = next((one for _, one in measured if one.max != one.max), None)
    if odd is not None:
        return odd
    size = sum(count for count, _ in measured)
    parts = [one for _, one in measured]
    means = [one.mean * (count / size) for count, one in measured if one.mean is not None]
    norms = [one.norm for one in parts if one.norm is not None]
    return TensorStats(
        max=max(one.max for one in parts if one.max is not None),
        min=min(one.min for one in parts if one.min is not None),
        mean=sum(means) if means else None,
        norm=math.hypot(*norms) if norms else None,
    )


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
