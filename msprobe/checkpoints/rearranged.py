"""How the elements of one tensor are arranged in another: transposed, in another order, interleaved, padded; a matrix
also transposed and then one of the others.

Each row and each column is reduced to one number, its product with fixed random weights. Equal rows have equal numbers,
and rows that differ do not. So both tensors are read once, in pieces, and no more than a number for each row and column
is kept. A tensor of more than two axes counts as its first axis by all others, but where axes are exchanged: the lines
of each axis have a number then, and the second tensor is read once for each order of axes that its shape allows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.checkpoints.similarity import Floats, coarser, float_elements
from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor

_PIECE = 1 << 18
"""Elements that are read at a time."""
_MOST_LINES = 1 << 21
"""Rows or columns of a tensor that is looked at: each costs some 50 bytes."""
_MOST_ORDERS = 24
"""Orders of axes that are tried."""
_CLOSE = 1e-9
"""How far the numbers of equal rows may be apart, relative to the largest: the rounding of their sums."""


class _Side(NamedTuple):
    """A tensor: its shape, and what reads a range of its elements."""

    shape: tuple[int, ...]
    read: Callable[[int, int], Floats]

    def matrix(self) -> _Side:
        """Return it as its first axis by all others."""
        height = self.shape[0]
        return _Side((height, math.prod(self.shape[1:])), self.read)

    def lines(self, numbering: Sequence[int] | None = None) -> list[Floats]:
        """Return for each axis the numbers of its lines: their products with the weights of all other axes.

        Args:
            numbering: for each axis which one it is, where axes of one size must be told apart.
        """
        shape = self.shape
        weights = [_weights(size, axis) for size, axis in zip(shape, numbering or [0] * len(shape), strict=True)]
        found = [np.zeros(size) for size in shape]
        width = math.prod(shape[1:])
        step = max(_PIECE // width, 1)
        for start in range(0, shape[0], step):
            stop = min(start + step, shape[0])
            block = self.read(start * width, stop * width).reshape(stop - start, *shape[1:])
            part = [weights[0][start:stop], *weights[1:]]
            found[0][start:stop] = _line(block, part, 0)
            for axis in range(1, len(shape)):
                found[axis] += _line(block, part, axis)
        return found


def relation(first: LazyTensor, second: LazyTensor) -> str:
    """Return how the second tensor holds the elements of the first, in words; an empty text where it does not.

    The tensors differ, in their shapes or their elements. Of floats of two types the finer ones are rounded.
    """
    shapes = first.shape, second.shape
    if any(not shape or 0 in shape or max(shape[0], math.prod(shape[1:])) > _MOST_LINES for shape in shapes):
        return ""
    try:
        coarse = coarser(first, second)
        one, other = (_Side(side.shape, float_elements(side, coarse)) for side in (first, second))
        with np.errstate(all="ignore"):
            found = _exchanged(one, other) or _same_shape(one, other) or _padded(one, other)
            return found or _transposed_and_more(one, other)
    except (ReadError, MemoryError):
        return ""


def _weights(count: int, axis: int = 0) -> Floats:
    return np.random.default_rng((count, axis)).standard_normal(count)


def _line(block: Floats, weights: Sequence[Floats], axis: int) -> Floats:
    """Return the numbers of one axis of a block."""
    for other in reversed(range(block.ndim)):
        if other != axis:
            block = np.tensordot(block, weights[other], (other, 0))
    return block


def _agree(one: Floats, other: Floats) -> bool:
    scale = max(float(np.abs(one).max(initial=0.0)), float(np.abs(other).max(initial=0.0)))
    return bool(np.isfinite(scale) and scale > 0.0 and np.all(np.abs(one - other) <= _CLOSE * scale))


def _exchanged(first: _Side, second: _Side) -> str:
    """Return in which order the second tensor has the axes of the first."""
    axes = range(len(first.shape))
    orders = (
        order
        for order in itertools.permutations(axes)
        if order != tuple(axes) and tuple(first.shape[axis] for axis in order) == second.shape
    )
    own: list[Floats] = []
    for order in itertools.islice(orders, _MOST_ORDERS):
        own = own or first.lines(axes)
        if all(_agree(own[axis], lines) for axis, lines in zip(order, second.lines(order), strict=True)):
            return "the first one transposed" if len(axes) == 2 else f"the first one with its axes in the order {order}"
    return ""


def _same_shape(first: _Side, second: _Side) -> str:
    """Return in which order the second tensor has the lines of the first one's first axis, or those across it."""
    if first.shape != second.shape:
        return ""
    units = ("rows", "columns") if len(first.shape) > 1 else ("elements", "")
    return _reordered(units, first.matrix().lines(), second.matrix().lines(), "the first one")


def _reordered(units: Sequence[str], one: Sequence[Floats], other: Sequence[Floats], name: str) -> str:
    """Return in which order the second tensor has the lines of an axis of the first, by the numbers of both."""
    for unit, lines, others in zip(units, one, other, strict=True):
        order = _order(lines, others) if unit else None
        if order is not None:
            return f"{unit} of {name} {_arrangement(order)}"
    return ""


def _transposed_and_more(first: _Side, second: _Side) -> str:
    """Return in which order, or with how many lines more, the second matrix has those of the first one transposed."""
    if len(first.shape) != 2 or len(second.shape) != 2:
        return ""
    name, units = "the first one transposed,", ("rows", "columns")
    axes = [axis for axis in (0, 1) if first.shape[1 - axis] != second.shape[axis]]
    if len(axes) > 1:
        return ""
    one, other = first.lines()[::-1], second.lines()
    if not axes:
        return _reordered(units, one, other, name)
    shorter, longer = sorted((one[axes[0]], other[axes[0]]), key=len)
    for before in (0, len(longer) - len(shorter)):
        if _agree(shorter, longer[before : before + len(shorter)]):
            more = np.delete(longer, np.s_[before : before + len(shorter)])
            rest = float("nan") if more.any() else 0.0
            return _with_more(name, units[axes[0]], len(more), rest, (longer is other[axes[0]], before > 0))
    return ""


def _with_more(name: str, unit: str, more: int, rest: float, place: tuple[bool, bool]) -> str:
    """Return in words that a tensor has lines more, or less, than another one.

    Args:
        name: what the other one is called.
        unit: rows, columns or elements.
        more: how many lines.
        rest: their value; NaN for several values.
        place: whether it has them more, and whether they come first.
    """
    has_more, first = place
    if has_more:
        count, value = f"{more} {unit if more > 1 else unit[:-1]}", "" if np.isnan(rest) else f" of {rest:g}"
        return f"{name} with {count}{value} more {'before' if first else 'behind'} it"
    count = f"{more} {unit}" if more > 1 else unit[:-1]
    value = "" if np.isnan(rest) else f", which {'are' if more > 1 else 'is'} {rest:g}"
    return f"{name} without its {'first' if first else 'last'} {count}{value}"


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


def _padded(first: _Side, second: _Side) -> str:
    """Return whether one tensor is the other with further rows or columns behind or before."""
    if len(first.shape) != len(second.shape):
        return ""
    axes = [axis for axis, sizes in enumerate(zip(first.shape, second.shape, strict=True)) if sizes[0] != sizes[1]]
    if len(axes) != 1 or axes[0] > 1:
        return ""
    (axis,) = axes
    longer, shorter = (second, first) if second.shape[axis] > first.shape[axis] else (first, second)
    more = int(longer.shape[axis] - shorter.shape[axis])
    unit = ("rows" if len(first.shape) > 1 else "elements", "columns")[axis]
    for before in (0, more):
        rest = _rest(longer, shorter, axis, before)
        if rest is not None:
            return _with_more("the first one", unit, more, rest, (longer is second, before > 0))
    return ""


def _rest(longer: _Side, shorter: _Side, axis: int, before: int) -> float | None:
    """Return the value of what the longer tensor has more, NaN for several values; None where the others differ."""
    inner = math.prod(longer.shape[axis + 1 :])
    own, part = longer.shape[axis] * inner, shorter.shape[axis] * inner
    read, read_part = longer.read, shorter.read
    lines = math.prod(longer.shape) // own
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
