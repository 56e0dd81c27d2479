"""How a tensor of one process is cut for the ranks of a layout: along which axes, and in which order.

A value has a piece on each rank (and in each micro batch). Where a piece has the shape of the whole, it is a copy; else
each axis of the layout cuts one axis of the tensor. The shapes leave several ways open where lengths are equal, and say
nothing of the order in which ranks hold their parts. The recorded statistics of the pieces tell the right way; where a
piece is wrong they cannot, and the way of other values is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.parallel.arrangement import CONTEXT, DATA, Coordinates
from msprobe.compare.parallel.recorded_parts import common_part
from msprobe.core.tensors.input_parts import AxisRanges, cut
from msprobe.core.tensors.projection import KEY, projection
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.trace.leaves import as_float

Array = NDArray[Any]
_ALIKE, _STANDS_OUT = 0.02, 10.0
"""How close statistics of a piece are in the right way, and how many times closer than in any other."""
_SMALL = 1e-12


class Nested(NamedTuple):
    """An axis of the layout that cuts an axis of a tensor.

    ``folded``: the first rank has the first and the last part, the second one those next to them, as causal attention
    balances its work. ``gathered``: every rank has all parts, in the order of the ranks.
    """

    axis: int
    folded: bool = False
    gathered: bool = False


Way = tuple[tuple[int, tuple[Nested, ...]], ...]
"""For each axis of the tensor that is cut, what cuts it, the outermost first. Empty: every rank has the whole."""


def ways(pieces: Mapping[Coordinates, Mapping[str, Any]], shape: Sequence[int]) -> list[Way]:
    """Return every way to cut a tensor of this shape into the pieces; none where they do not tile it."""
    shapes = {place: tuple(piece["shape"]) for place, piece in pieces.items()}
    if any(len(own) != len(shape) for own in shapes.values()):
        return []
    spread = [axis for axis, numbers in enumerate(zip(*shapes, strict=True)) if len(set(numbers)) > 1]
    stated = {axis: _stated(pieces, axis) for axis in spread if axis <= DATA}
    choices = [(None, *range(len(shape))) if stated.get(axis) is None else (stated[axis],) for axis in spread]
    result = []
    for chosen in product(*choices):
        cuts: dict[int, list[int]] = {}
        for axis, dim in zip(spread, chosen, strict=True):
            if dim is not None:
                cuts.setdefault(dim, []).append(axis)
        result += [way for way in _orders(cuts) if _tiles(way, shapes, shape)]
    if CONTEXT in spread:
        ranks = len({place[CONTEXT] for place in pieces})
        result += [other for way in result for other in _gathered(way, shape, 2 * ranks)]
    return result


def is_cut(way: Way) -> bool:
    """Return whether each rank has a part of the tensor only."""
    return any(not each.gathered for _, nested in way for each in nested)


def _gathered(way: Way, shape: Sequence[int], parts: int) -> Iterator[Way]:
    """Yield the way with one more axis on which folded parts of all ranks lie one after the other."""
    for dim, length in enumerate(shape):
        if length and length % parts == 0 and dim not in dict(way):
            yield (*way, (dim, (Nested(CONTEXT, folded=True, gathered=True),)))


def _stated(pieces: Mapping[Coordinates, Mapping[str, Any]], axis: int) -> int | None:
    """Return the axis of the tensor that the program says is cut over the ranks along an axis of the layout."""
    groups: dict[Coordinates, list[Any]] = {}
    for place in sorted(pieces):
        groups.setdefault((*place[:axis], 0, *place[axis + 1 :]), []).append(pieces[place])
    parts = [common_part(group) for group in groups.values()]
    return None if not parts or None in parts else parts[0].dim  # type: ignore[union-attr]


def _orders(cuts: Mapping[int, Sequence[int]]) -> Iterator[Way]:
    """Yield the ways in which axes of the layout that cut one axis of the tensor can lie within each other."""
    dims = sorted(cuts)
    for nested in product(*(permutations(cuts[dim]) for dim in dims)):
        folds = [[(axis, folded) for folded in ((False, True) if axis == CONTEXT else (False,))] for axes in nested
                 for axis in axes]  # fmt: skip
        for chosen in product(*folds):
            folded = dict(chosen)
            yield tuple(
                (dim, tuple(Nested(axis, folded[axis]) for axis in axes))
                for dim, axes in zip(dims, nested, strict=True)
            )


def _tiles(way: Way, shapes: Mapping[Coordinates, tuple[int, ...]], shape: Sequence[int]) -> bool:
    cut_dims = dict(way)
    for dim, length in enumerate(shape):
        if dim not in cut_dims:
            if any(own[dim] != length for own in shapes.values()):
                return False
            continue
        lengths = _lengths(cut_dims[dim], shapes, dim)
        if lengths is None or sum(lengths.values()) != length:
            return False
        if any(each.folded for each in cut_dims[dim]) and len(set(lengths.values())) > 1:
            return False
        if any(each.folded for each in cut_dims[dim]) and length % (2 * len(lengths)):
            return False
    return True


def _lengths(
    nested: Sequence[Nested], shapes: Mapping[Coordinates, tuple[int, ...]], dim: int
) -> dict[Coordinates, int] | None:
    """Return the length of each part along an axis, by its numbers along what cuts it; None where they contradict."""
    lengths: dict[Coordinates, int] = {}
    for place, own in shapes.items():
        key = tuple(place[each.axis] for each in nested)
        if lengths.setdefault(key, own[dim]) != own[dim]:
            return None
    return lengths


def part_of(
    way: Way, place: Coordinates, pieces: Mapping[Coordinates, Mapping[str, Any]], shape: Sequence[int]
) -> tuple[AxisRanges, ...]:
    """Return the ranges of the whole that the rank at a place holds."""
    shapes = {each: tuple(piece["shape"]) for each, piece in pieces.items()}
    result: list[AxisRanges] = []
    for dim, nested in way:
        indices = np.arange(shape[dim])
        before: Coordinates = ()
        if nested[0].gathered:
            sizes = dict.fromkeys(sorted({each[nested[0].axis] for each in pieces}), 0)
            shares = [_share(indices, number, sizes, folded=True) for number in sizes]
            result.append((dim, _ranges(np.concatenate(shares))))
            continue
        lengths = _lengths(nested, shapes, dim) or {}
        for level, each in enumerate(nested):
            indices = _share(indices, place[each.axis], _sizes(lengths, before, level), folded=each.folded)
            before = (*before, place[each.axis])
        result.append((dim, _ranges(indices)))
    return tuple(result)


def _sizes(lengths: Mapping[Coordinates, int], before: Coordinates, level: int) -> dict[int, int]:
    """Return the length of each share at a level of nesting, within the shares chosen ``before``."""
    sizes: dict[int, int] = {}
    for key, length in sorted(lengths.items()):
        if key[:level] == before:
            sizes[key[level]] = sizes.get(key[level], 0) + length
    return sizes


def _share(indices: NDArray[np.int64], number: int, sizes: Mapping[int, int], *, folded: bool) -> NDArray[np.int64]:
    if folded:
        half, order = len(indices) // (2 * len(sizes)), sorted(sizes).index(number)
        parts = [indices[first * half : (first + 1) * half] for first in (order, 2 * len(sizes) - 1 - order)]
        return np.concatenate(parts)
    begin = sum(size for other, size in sizes.items() if other < number)
    return indices[begin : begin + sizes[number]]


def _ranges(indices: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    breaks = np.flatnonzero(np.diff(indices) != 1) + 1
    return tuple((int(run[0]), int(run[-1]) + 1) for run in np.split(indices, breaks) if len(run))


def right_way(choices: Sequence[Way], pieces: Mapping[Coordinates, Mapping[str, Any]], whole: Array) -> Way | None:
    """Return the way whose parts have the recorded statistics of the pieces; None where none stands out."""
    apart = []
    for way in choices:
        parts = ((piece, cut(whole, part_of(way, place, pieces, whole.shape))) for place, piece in pieces.items())
        apart.append(max(_distance(piece, part) for piece, part in parts))
    best = min(range(len(choices)), key=apart.__getitem__)
    others = [each for number, each in enumerate(apart) if number != best]
    if apart[best] > _ALIKE or any(each <= max(_STANDS_OUT * apart[best], _SMALL) for each in others):
        return None
    return choices[best]


def _distance(piece: Mapping[str, Any], part: Array) -> float:
    """Return how far the recorded statistics of a piece are from those of a part, in units of the part's size."""
    if not part.size:
        return 0.0
    values = part.astype(np.float64)
    size = float(np.abs(values).max()) or 1.0
    norm = float(np.linalg.norm(values))
    own = (float(values.max()), float(values.min()), float(values.mean()), norm)
    units = (size, size, size, norm or 1.0)
    apart = [
        abs(as_float(recorded) - number) / unit
        for name, number, unit in zip(STATISTIC_NAMES, own, units, strict=True)
        if isinstance(recorded := piece.get(name), (int, float))
    ]
    recorded, own_projection = piece.get(KEY), projection(part)
    if isinstance(recorded, (int, float)) and own_projection is not None:
        apart.append(abs(as_float(recorded) - own_projection) / (norm or 1.0))
    return max((each if math.isfinite(each) else math.inf for each in apart), default=math.inf)
