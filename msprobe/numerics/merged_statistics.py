"""Statistics of a tensor from the statistics of its parts, exact for any parts in any order.

How each statistic is merged stands in the table of statistics (``Merge``):

largest = max of the largest        smallest = min of the smallest
mean = sum(n_i * mean_i) / sum(n_i) norm = sqrt(sum(norm_i ** 2))

with n_i the number of elements of part i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msprobe.core.tensors.statistics import STATISTICS, Merge


class Shard(NamedTuple):
    """One part of a tensor.

    Attributes:
        statistics: its statistics in the order of ``STATISTICS``, in the unit of the data.
        numel: its number of elements.
    """

    statistics: tuple[float, ...]
    numel: int


def merged_statistics(shards: Sequence[Shard]) -> Shard:
    """Return the statistics of all parts as one tensor. Parts without elements do not count; NaN anywhere stays NaN.

    Raises:
        ValueError: there is no part.
    """
    if not shards:
        raise ValueError("no parts to merge")
    filled = [shard for shard in shards if shard.numel > 0] or list(shards[:1])
    sizes = [shard.numel for shard in filled]
    columns = zip(*(shard.statistics for shard in filled), strict=True)
    merged = (_MERGES[spec.merge](values, sizes) for spec, values in zip(STATISTICS, columns, strict=True))
    return Shard(tuple(merged), sum(sizes))


def _largest(values: Sequence[float], sizes: Sequence[int]) -> float:
    return math.nan if any(map(math.isnan, values)) else max(values)


def _smallest(values: Sequence[float], sizes: Sequence[int]) -> float:
    return math.nan if any(map(math.isnan, values)) else min(values)


def _weighted_mean(values: Sequence[float], sizes: Sequence[int]) -> float:
    count = sum(sizes)
    return sum(value * size for value, size in zip(values, sizes, strict=True)) / count if count else values[0]


def _root_of_squares(values: Sequence[float], sizes: Sequence[int]) -> float:
    return math.nan if any(map(math.isnan, values)) else math.hypot(*values)  # hypot of inf and NaN is inf


_MERGES: Mapping[Merge, Callable[[Sequence[float], Sequence[int]], float]] = {
    Merge.LARGEST: _largest,
    Merge.SMALLEST: _smallest,
    Merge.WEIGHTED_MEAN: _weighted_mean,
    Merge.ROOT_OF_SQUARES: _root_of_squares,
}
