"""Elements that lie in a file as they are in memory: read whole through a map, or a range at a time.

A range is read into memory of its own, not through a map: what was read can be given back, so that a tensor of any size
passes through little memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.safe_files import regular
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensors.dtypes import DType

Extent = tuple[int, int]
"""Where bytes begin in a file, and how many there are."""


def elements_in_file(path: Path, extents: Sequence[Extent], shape: tuple[int, ...], dtype: DType) -> LazyTensor:
    """Return the tensor whose elements, in row-major order, are the bytes of ``extents`` one after the other.

    The caller has checked that they are as many as the shape needs, and lie inside the file.
    """
    places = tuple(extents)
    read_range = partial(_read_range, path, places, dtype.container)
    if len(places) == 1:
        read = partial(_mapped, path, places[0][0], shape, dtype.container)
    else:
        read = partial(_joined, path, places, shape, dtype.container)
    return LazyTensor(shape, dtype.name, read, read_range)


def _read_range(path: Path, extents: Sequence[Extent], container: str, start: int, stop: int) -> NDArray[Any]:
    values = np.empty(stop - start, container)
    pieces = _pieces(extents, start * values.itemsize, stop * values.itemsize)
    room = values.view(np.uint8).data
    try:
        file = os.open(regular(path), os.O_RDONLY | os.O_CLOEXEC)  # in a tenth of the time of an object for a file
        try:
            for place, at, size in pieces:
                _fill(file, place, room[at : at + size])
        finally:
            os.close(file)
    except (OSError, EOFError) as error:
        raise ReadError(f"{path}: cannot be read any more ({error_text(error)})") from error
    return values


def _pieces(extents: Sequence[Extent], start: int, stop: int) -> list[tuple[int, int, int]]:
    """Return which bytes of the file make a range of the bytes of all extents: place, where it goes, and size."""
    found, before = [], 0
    for place, size in extents:
        begin, end = max(start, before), min(stop, before + size)
        if begin < end:
            found.append((place + begin - before, begin - start, end - begin))
        before += size
    return found


def _fill(file: int, place: int, room: memoryview) -> None:
    """Read until ``room`` is full; a single read may return less."""
    done = 0
    while done < len(room):
        count = os.preadv(file, [room[done:]], place + done)
        if not count:
            raise EOFError("it has become shorter")
        done += count


def _mapped(path: Path, start: int, shape: tuple[int, ...], container: str) -> NDArray[Any]:
    if 0 in shape:
        return np.zeros(shape, container)
    try:
        flat = np.memmap(path, np.uint8, "r", start, (prod(shape) * np.dtype(container).itemsize,))
    except (OSError, ValueError) as error:
        raise ReadError(f"{path}: cannot be read any more ({error_text(error)})") from error
    return np.asarray(flat).view(container).reshape(shape)


def _joined(path: Path, extents: Sequence[Extent], shape: tuple[int, ...], container: str) -> NDArray[Any]:
    return _read_range(path, extents, container, 0, prod(shape)).reshape(shape)
