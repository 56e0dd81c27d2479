"""How the elements of one tensor are arranged in another: transposed, in another order, interleaved, padded.

Each row and each column is reduced to one number, its product with fixed random weights. Equal rows have equal numbers,
and rows that differ do not. So both tensors are read once, in pieces, and no more than a number for each row and column
is kept. A tensor of more than two axes counts as its first axis by all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.checkpoints.similarity import Floats, float_elements
from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor

_PIECE = 1 << 18
"""Elements that are read at a time."""
_MOST_LINES = 1 << 21
"""Rows or columns of a tensor that is looked at: each costs some 50 bytes."""
_CLOSE = 1e-9
"""How far the numbers of equal rows may be apart, relative to the largest: the rounding of their sums."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """The numbers of a tensor's rows and columns."""

    rows: Floats
    columns: Floats

    @classmethod
    def of(cls, tensor: LazyTensor, shape: tuple[int, int]) -> _Lines:
        """Read a tensor as a matrix of this shape."""
        height, width = shape
        across, down = _weights(width), _weights(height)
        rows, columns = np.zeros(height), np.zeros(width)
        read = float_elements(tensor)
        step = max(_PIECE // width, 1)
        for start in range(0, height, step):
            stop = min(start + step, height)
            block = read(start * width, stop * width).reshape(stop - start, width)
            rows[start:stop] = block @ across
            columns += down[start:stop] @ block
        return cls(rows, columns)


def relation(first: LazyTensor, second: LazyTensor) -> str:
    """Return how the second tensor holds the elements of the first, in words; an empty text where it does not.

    The tensors differ, in their shapes or their elements.
    """
    shapes = _matrix(first.shape), _matrix(second.shape)
    if any(shape is None or not 0 < max(shape) <= _MOST_LINES or 0 in shape for shape in shapes):
        return ""
    shape = shapes[0]
    assert shape is not None
    try:
        with np.errstate(all="ignore"):
            if first.shape == second.shape:
                return _same_shape(first, second, shape)
            if first.shape == second.shape[::-1]:
                return _transposed(first, second, shape)
            if len(first.shape) == len(second.shape):
                return _padded(first, second)
    except (ReadError, MemoryError):
        return ""
    return ""


def _matrix(shape: tuple[int, ...]) -> tuple[int, int] | None:
    return (int(shape[0]), int(np.prod(shape[1:], dtype=np.int64))) if shape else None


def _weights(count: int) -> Floats:
    return np.random.default_rng(count).standard_normal(count)


def _agree(one: Floats, other: Floats) -> bool:
    scale = max(float(np.abs(one).max(initial=0.0)), float(np.abs(other).max(initial=0.0)))
    return bool(np.isfinite(scale) and scale > 0.0 and np.all(np.abs(one - other) <= _CLOSE * scale))


def _transposed(first: LazyTensor, second: LazyTensor, shape: tuple[int, int]) -> str:
    one, other = _Lines.of(first, shape), _Lines.of(second, shape[::-1])
    return "the first one transposed" if _agree(one.rows, other.columns) and _agree(one.columns, other.rows) else ""


def _same_shape(first: LazyTensor, second: LazyTensor, shape: tuple[int, int]) -> str:
    one, other = _Lines.of(first, shape), _Lines.of(second, shape)
    unit = "rows" if len(first.shape) > 1 else "elements"
    if shape[0] == shape[1] and _agree(one.rows, other.columns) and _agree(one.columns, other.rows):
        return "the first one transposed"
    if (order := _order(one.rows, other.rows)) is not None:
        return f"{unit} of the first one {_arrangement(order)}"
    if len(first.shape) > 1 and (order := _order(one.columns, other.columns)) is not None:
        return f"columns of the first one {_arrangement(order)}"
    return ""


def _order(one: Floats, other: Floats) -> NDArray[np.int64] | None:
    """Return which line of the first each line of the second is; None for other lines, or the same order."""
    by_size, other_by_size = np.argsort(one, kind="stable"), np.argsort(other, kind="stable")
    if not _agree(one[by_size], other[other_by_size]):
        return None
    order = np.empty(len(one), np.int64)
    order[other_by_size] = by_size
    return None if np.array_equal(order, np.arange(len(order))) else order


def _arrangement(order: NDArray[np.int64]) -> str:
    """Return in words what a permutation does."""
    if np.array_equal(order, np.arange(len(order))[::-1]):
        return "in reverse order"
    for groups, parts, blocks, size in _factors(len(order), order):
        whole = np.arange(len(order)).reshape(groups, parts, blocks, size)
        if np.array_equal(whole.transpose(0, 2, 1, 3).ravel(), order):
            inside = f" inside each of {groups} groups" if groups > 1 else ""
            return f"interleaved: {parts} parts of {blocks} blocks of {size} become {blocks} times {parts}{inside}"
    return f"in another order ({np.count_nonzero(order != np.arange(len(order)))} of {len(order)} are elsewhere)"


def _factors(count: int, order: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ways to cut a permutation into groups, parts, blocks and sizes that its beginning allows."""
    steps = np.flatnonzero(np.diff(order) != 1)
    size = int(steps[0]) + 1 if len(steps) else count  # the first block stays together
    if order[0] != 0 or count % size or size == count:
        return
    jump = int(order[size])  # where the second part begins: parts are this far apart
    if jump <= 0 or jump % size:
        return
    blocks = jump // size
    for parts in range(2, count // (size * blocks) + 1):
        if count % (size * blocks * parts) == 0:
            yield count // (size * blocks * parts), parts, blocks, size


def _padded(first: LazyTensor, second: LazyTensor) -> str:
    """Return whether one tensor is the other with further rows or columns behind or before."""
    axes = [axis for axis, sizes in enumerate(zip(first.shape, second.shape, strict=True)) if sizes[0] != sizes[1]]
    if len(axes) != 1 or axes[0] > 1:
        return ""
    (axis,) = axes
    longer, shorter = (second, first) if second.shape[axis] > first.shape[axis] else (first, second)
    more = int(longer.shape[axis] - shorter.shape[axis])
    name = "the first one" if longer is second else "the second one"
    holder = "" if longer is second else "the first is "
    unit = ("rows" if len(first.shape) > 1 else "elements", "columns")[axis]
    for before in (0, more):
        rest = _rest(longer, shorter, axis, before)
        if rest is not None:
            value = "" if np.isnan(rest) else f" of {rest:g}"
            return f"{holder}{name} with {more} {unit}{value} more {'before' if before else 'behind'} it"
    return ""


def _rest(longer: LazyTensor, shorter: LazyTensor, axis: int, before: int) -> float | None:
    """Return the value of what the longer tensor has more, NaN for several values; None where the others differ."""
    height, width = _matrix(longer.shape)  # type: ignore[misc]
    inner = int(np.prod(longer.shape[axis + 1 :], dtype=np.int64))
    own, part = longer.shape[axis] * inner, shorter.shape[axis] * inner
    read, read_part = float_elements(longer), float_elements(shorter)
    lines = height * width // own
    values: set[float] = set()
    piece = max(_PIECE // max(own, 1), 1)
    for start in range(0, lines, piece):
        stop = min(start + piece, lines)
        for line in range(start, stop):
            same, extra = _compare_line(read, read_part, (line * own, own), (line * part, part), before * inner)
            if not same:
                return None
            values |= extra
            values = values if len(values) < 2 else {0.0, 1.0}
    return values.pop() if len(values) == 1 else float("nan")


def _compare_line(read: Any, read_part: Any, own: tuple[int, int], part: tuple[int, int], before: int) -> Any:
    """Return whether a line of the longer tensor holds that of the shorter one, and the ends of what it has more."""
    begin = own[0] + before
    for start in range(0, part[1], _PIECE):
        stop = min(start + _PIECE, part[1])
        if not np.array_equal(read(begin + start, begin + stop), read_part(part[0] + start, part[0] + stop)):
            return False, set()
    first, last = (own[0], begin) if before else (begin + part[1], own[0] + own[1])
    extra: set[float] = set()
    for start in range(first, last, _PIECE):
        block = read(start, min(start + _PIECE, last))
        extra |= {float(block.min()), float(block.max())}
    return True, extra
