"""Tensors put together from blocks: shards of several ranks, or parts in several files.

Each block is a tensor of its own that fills a box of the whole. Where all boxes are whole rows, a range of the whole is
a range of some blocks. Where they cut other axes, a range is read with the rest of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensors.dtypes import find_dtype

_MOST_PAIRS = 1 << 22


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a tensor, and the index of its first element in the whole."""

    offsets: tuple[int, ...]
    tensor: LazyTensor


def assembled(shape: tuple[int, ...], blocks: Sequence[Block]) -> LazyTensor:
    """Return the whole tensor; all blocks have one dtype that is known.

    Raises:
        ReadError: a block reaches outside, or the blocks leave a gap or lie over each other.
    """
    used = [block for block in blocks if block.tensor.numel]
    _check_boxes(shape, used)
    if len(used) == 1 and used[0].tensor.shape == shape:
        return used[0].tensor
    dtype = find_dtype(blocks[0].tensor.dtype)
    assert dtype is not None  # the caller's promise
    whole = _Whole(shape, dtype.container, tuple(sorted(used, key=lambda block: block.offsets)))
    in_ranges = all(block.tensor.read_range is not None for block in used)
    return LazyTensor(shape, dtype.name, whole.read, whole.read_range if in_ranges else None)


def rows(tensor: LazyTensor, first: int, last: int) -> LazyTensor:
    """Return the rows (indices of the first axis) from ``first`` to before ``last``."""
    shape = (last - first, *tensor.shape[1:])
    read_range, row = tensor.read_range, prod(tensor.shape[1:])
    part = None
    if read_range is not None:
        whole = read_range

        def part(start: int, stop: int) -> NDArray[Any]:
            return whole(first * row + start, first * row + stop)

    return LazyTensor(shape, tensor.dtype, lambda: tensor.read()[first:last], part)


@dataclass(frozen=True, slots=True)
class _Whole:
    """Reads a tensor of at least one axis, or a scalar, from its blocks in the order of their offsets."""

    shape: tuple[int, ...]
    container: str
    blocks: tuple[Block, ...]

    def read(self) -> NDArray[Any]:
        """Return all elements."""
        whole = np.empty(self.shape, self.container)
        for block in self.blocks:
            box = tuple(slice(at, at + size) for at, size in zip(block.offsets, block.tensor.shape, strict=True))
            whole[box] = block.tensor.read()
        return whole

    def read_range(self, start: int, stop: int) -> NDArray[Any]:
        """Return the elements from ``start`` to before ``stop``, flat."""
        row = prod(self.shape[1:])
        if all(block.tensor.shape[1:] == self.shape[1:] for block in self.blocks):
            return self._read_rows_whole(start, stop, row)
        first, last = start // row, -(-stop // row)
        slab = np.empty((last - first, *self.shape[1:]), self.container)
        for block in self.blocks:
            begin, end = max(first, block.offsets[0]), min(last, block.offsets[0] + block.tensor.shape[0])
            if begin < end:
                box = [slice(at, at + size) for at, size in zip(block.offsets, block.tensor.shape, strict=True)]
                box[0] = slice(begin - first, end - first)
                slab[tuple(box)] = _block_rows(block, begin, end)
        return slab.reshape(-1)[start - first * row : stop - first * row]

    def _read_rows_whole(self, start: int, stop: int, row: int) -> NDArray[Any]:
        """Return a range where every block is a range of the whole."""
        values = np.empty(stop - start, self.container)
        for block in self.blocks:
            at = block.offsets[0] * row
            begin, end = max(start, at), min(stop, at + block.tensor.numel)
            if begin < end:
                assert block.tensor.read_range is not None
                values[begin - start : end - start] = block.tensor.read_range(begin - at, end - at)
        return values


def _block_rows(block: Block, begin: int, end: int) -> NDArray[Any]:
    """Return the elements of a block in the rows from ``begin`` to before ``end`` of the whole."""
    tensor, row = block.tensor, prod(block.tensor.shape[1:])
    assert tensor.read_range is not None
    at = block.offsets[0]
    return tensor.read_range((begin - at) * row, (end - at) * row).reshape(end - begin, *tensor.shape[1:])


def _check_boxes(shape: tuple[int, ...], blocks: Sequence[Block]) -> None:
    for block in blocks:
        axes = zip(block.offsets, block.tensor.shape, shape, strict=False)
        fits = len(block.offsets) == len(block.tensor.shape) == len(shape)
        if not fits or any(at < 0 or at + size > most for at, size, most in axes):
            raise ReadError(f"a part of shape {list(block.tensor.shape)} does not lie in shape {list(shape)}")
    covered, needed = sum(block.tensor.numel for block in blocks), prod(shape)
    if covered != needed:
        raise ReadError(f"{covered} of {needed} elements are there")
    if len(blocks) ** 2 > _MOST_PAIRS:
        raise ReadError(f"it is cut into {len(blocks)} parts; so many are not read")
    if len(blocks) > 1 and shape and _overlap(blocks):
        raise ReadError("two of its parts lie over each other")


def _overlap(blocks: Sequence[Block]) -> bool:
    low = np.array([block.offsets for block in blocks], np.int64)
    high = low + np.array([block.tensor.shape for block in blocks], np.int64)
    meet = np.ones((len(blocks), len(blocks)), np.bool_)
    for axis in range(low.shape[1]):
        meet &= (low[:, None, axis] < high[None, :, axis]) & (low[None, :, axis] < high[:, None, axis])
    return int(np.count_nonzero(meet)) > len(blocks)
