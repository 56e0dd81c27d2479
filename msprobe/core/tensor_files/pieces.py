"""Elements of a tensor of a file in pieces, so that no second tensor of its size is made.

A piece is about 256 KB: it stays in the caches of a processor between being put in order, widened and written, and its
memory is used again, where that of larger arrays would be made anew page by page. Of FRACTAL_NZ, the layout of large
matrices, a piece is some rows, about 512 KB, in memory that the next piece uses again; every other tensor is cut as it
lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensor_files.npu_layouts import Shape, check_original, to_plain

Array = NDArray[Any]
_PIECE = 1 << 18
_BAND = 1 << 19
"""Bytes of a band of rows: with fewer, each column of blocks gives a run that is too short."""
_TILE = 1 << 10
"""Bytes of a row that are put in order at a time."""


def in_order(stored: Array, layout: str, original: Shape | None) -> tuple[Shape, Iterator[Array]]:
    """Return the shape of the tensor in the program, and contiguous pieces of its elements in the order of rows.

    A piece holds its elements until the next one is asked for.

    Args:
        stored, layout, original: as ``npu_layouts.to_plain`` has them.

    Raises:
        ReadError: the shape is not one of this layout, or the original shape does not fit into it.
    """
    if not _is_banded(stored, layout, original):
        plain = to_plain(stored, layout, original)
        return plain.shape, _flat(plain)
    shape = _nz_shape(stored, original)
    return shape, _nz_rows(stored, shape)


def in_any_order(stored: Array, layout: str, original: Shape | None) -> tuple[Shape, Iterator[Array]]:
    """Return the same as ``in_order``, with the elements in an order that needs the fewest copies.

    Raises:
        ReadError: as ``in_order``.
    """
    if not _is_banded(stored, layout, original):
        return in_order(stored, layout, original)
    shape = _nz_shape(stored, original)
    return shape, _nz_columns(stored, shape)


def _is_banded(stored: Array, layout: str, original: Shape | None) -> bool:
    of_matrices = original is None or len(original) == stored.ndim - 2
    return layout == "FRACTAL_NZ" and stored.ndim >= 4 and stored.size > 0 and of_matrices and stored.flags.c_contiguous


def _nz_shape(stored: Array, original: Shape | None) -> Shape:
    w1, h1, h0, w0 = stored.shape[-4:]
    whole = (*stored.shape[:-4], h1 * h0, w1 * w0)
    if original is None:
        return whole
    check_original(original, whole, "FRACTAL_NZ")
    return original


def _nz_rows(stored: Array, shape: Shape) -> Iterator[Array]:
    """Yield bands of rows, each put together from a few columns of blocks at a time.

    A column of blocks lies far from the next one. Within a few of them, what a cache line brings is used whole before
    it is lost; row by row over all of them the same copies take more than twice the time.
    """
    w1, h1, h0, w0 = stored.shape[-4:]
    rows, columns = shape[-2:]
    run, pitch, whole = w0 * stored.itemsize, columns * stored.itemsize, columns // w0
    runs = stored.view(np.dtype((np.void, run))).reshape(*stored.shape[:-4], w1, h1 * h0)  # copied as one element each
    step, wide = max(1, _BAND // (w1 * run)), max(1, _TILE // run)
    memory = np.empty((min(step, rows), columns), stored.dtype)  # that of each band, whose pages would be made anew
    for index in np.ndindex(*shape[:-2]):
        for first in range(0, rows, step):
            last = min(first + step, rows)
            band = memory[: last - first]
            ordered: Array = np.ndarray((last - first, whole), runs.dtype, band.data, 0, (pitch, run))
            for left in range(0, whole, wide):
                right = min(left + wide, whole)
                ordered[:, left:right] = runs[index][left:right, first:last].T
            if whole * w0 < columns:
                tail = stored[index][whole].reshape(h1 * h0, w0)
                band[:, whole * w0 :] = tail[first:last, : columns - whole * w0]
            yield band


def _nz_columns(stored: Array, shape: Shape) -> Iterator[Array]:
    h1, h0, w0 = stored.shape[-3:]
    rows, columns = shape[-2:]
    for index in np.ndindex(*shape[:-2]):
        for column in range(-(-columns // w0)):
            block = stored[index][column].reshape(h1 * h0, w0)
            yield from _flat(block[:rows, : columns - column * w0])


def _flat(array: Array) -> Iterator[Array]:
    whole = np.ascontiguousarray(array).reshape(prod(array.shape))
    step = max(1, _PIECE // max(1, whole.itemsize))
    for first in range(0, len(whole), step):
        yield whole[first : first + step]
