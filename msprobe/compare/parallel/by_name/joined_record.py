"""The record of a whole tensor from those of its shards: the axis along which they add up, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from msprobe.core.store.record_walk import OF_ONE_PROCESS, SHARD
from msprobe.core.tensors.projection import KEY as ORDERED
from msprobe.core.tensors.statistics import STATISTIC_NAMES, STATISTICS, Merge
from msprobe.numerics.merged_statistics import Shard, merged_statistics
from msprobe.trace.leaves import UNORDERED, bounded

_RANK_KEYS = OF_ONE_PROCESS | {"placements", "device_mesh", SHARD}
_NO_ORDER = {ORDERED: None, UNORDERED: True}
_Shape = Sequence[int]
_Raw = dict[str, Any]


def local_sizes(shape: _Shape, axis: int, parts: int) -> list[int]:
    """Return the numbers of elements on each rank of a tensor of this whole shape.

    The pieces along ``axis`` have equal lengths; the last ones may be shorter or empty.
    """
    length = shape[axis]
    piece = -(-length // parts)
    rest = math.prod(_without_axis(shape, axis % len(shape)))
    return [max(0, min(piece, length - piece * part)) * rest for part in range(parts)]


def axis_that_adds_up(shapes: Sequence[_Shape], others: Sequence[_Shape]) -> int | None:
    """Return the axis along which the shapes of the ranks add up to that of the other side; None without such an axis.

    ``others`` are the shapes of the ranks of the other side: one that is whole, or several whose sum is wanted.
    """
    if not others or len(shapes) < 2 or any(len(shape) != len(others[0]) for shape in (*shapes, *others)):
        return None
    for axis in range(len(others[0])):
        rest = _without_axis(others[0], axis)
        if any(_without_axis(shape, axis) != rest for shape in (*shapes, *others)):
            continue
        total = sum(shape[axis] for shape in shapes)
        if total in (others[0][axis], sum(shape[axis] for shape in others)) and total != shapes[0][axis]:
            return axis
    return None


def _without_axis(shape: _Shape, axis: int) -> list[int]:
    return [size for index, size in enumerate(shape) if index != axis]


def joined_record(raws: Sequence[_Raw], sizes: Sequence[int], shape: Sequence[int]) -> _Raw:
    """Return the records of parts as the record of one tensor; a statistic that does not follow from them is null.

    Args:
        raws: the recorded parts.
        sizes: their numbers of elements; the mean is weighted with them.
        shape: the shape of the whole.
    """
    statistics: dict[str, Any] = dict.fromkeys(STATISTIC_NAMES)
    columns: dict[str, list[Any]] = {name: [bounded(raw.get(name)) for raw in raws] for name in STATISTIC_NAMES}
    if all(_is_number(value) for values in columns.values() for value in values):
        shards = [Shard(tuple(values), numel) for *values, numel in zip(*columns.values(), sizes, strict=True)]
        statistics = dict(zip(STATISTIC_NAMES, merged_statistics(shards).statistics, strict=True))
    else:  # flags have extremes, but no mean
        folds: dict[Merge, Callable[[list[Any]], Any]] = {Merge.LARGEST: max, Merge.SMALLEST: min}
        for spec in STATISTICS:
            fold = folds.get(spec.merge)
            if fold is not None and all(isinstance(value, (int, float)) for value in columns[spec.name]):
                statistics[spec.name] = fold(columns[spec.name])
    return rank_free(raws[0] | {"shape": list(shape)} | statistics | (_NO_ORDER if ORDERED in raws[0] else {}))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def rank_free(raw: _Raw) -> _Raw:
    """Return the record without what is true of a single rank only."""
    return {key: value for key, value in raw.items() if key not in _RANK_KEYS}
