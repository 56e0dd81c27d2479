"""Statistics of a tensor from the statistics of its parts, exact whatever the parts are and in which order.

largest = max of the largest        smallest = min of the smallest
mean = sum(n_i * mean_i) / sum(n_i) norm = sqrt(sum(norm_i ** 2))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Shard(NamedTuple):
    """The four statistics of one part and its number of elements; ``norm`` is the Euclidean norm."""

    largest: float
    smallest: float
    mean: float
    norm: float
    numel: int


def merged_statistics(shards: Sequence[Shard]) -> Shard:
    """The statistics of all parts as one tensor. Parts without elements do not count; NaN anywhere stays NaN.

    Raises:
        ValueError: there is no part.
    """
    if not shards:
        raise ValueError("no parts to merge")
    filled = [shard for shard in shards if shard.numel > 0] or list(shards[:1])
    count = sum(shard.numel for shard in filled)
    total = sum(shard.mean * shard.numel for shard in filled)
    return Shard(
        largest=_unless_nan(max, [shard.largest for shard in filled]),
        smallest=_unless_nan(min, [shard.smallest for shard in filled]),
        mean=total / count if count else filled[0].mean,
        norm=_unless_nan(_root_of_squares, [shard.norm for shard in filled]),
        numel=count,
    )


def _unless_nan(fold: Callable[[Sequence[float]], float], values: Sequence[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else fold(values)


def _root_of_squares(values: Sequence[float]) -> float:
    return math.hypot(*values)
