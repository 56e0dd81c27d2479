"""An order-sensitive statistic: the sum of all elements, each times a fixed pseudo-random weight of its position.

Max, Min, Mean and Norm do not change when elements are permuted (a wrong transpose, a shuffled batch, swapped heads);
the projection does. A small change of any element changes it in first order, and the norm only in second order. The
weight of element i in row-major order is

    w(i) = c(i div 2048) * t(i mod 2048),    t(j) = r(j),    c(b) = r(2^32 + b)
    r(k) = s * (1/2 + (u div 2^12) * 2^-53), s = 1 if u is even else -1, u = splitmix64(k)

so all weights lie between 1/4 and 1 in magnitude. splitmix64 is that of G. Steele, D. Lea, C. Flood, "Fast splittable
pseudorandom number generators" (2014). Integers and booleans count as numbers, complex elements by magnitude; a NaN
anywhere gives NaN. Every backend computes this sum in double; results differ only by the order of additions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.statistics import PROJECTION, STATISTICS, set_statistics

BLOCK: Final = 2048
KEY: Final = PROJECTION
EXPANDED: Final = 1 << 20
"""Elements from which on a tensor that was expanded from fewer has no projection."""
_BLOCKS_START = 1 << 32
_WITH_PROJECTION = len(STATISTICS) + 1


def _weights(first: int, count: int) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        u = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        u = (u ^ (u >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        u = (u ^ (u >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        u ^= u >> np.uint64(31)
    size = 0.5 + (u >> np.uint64(12)).astype(np.float64) * 2.0**-53
    return np.where(u & np.uint64(1), -size, size)


def set_measured(node: dict[str, Any], values: Sequence[Any]) -> None:
    """Write statistics, in table order, into the record of a tensor, and the projection if it follows them."""
    if len(values) == _WITH_PROJECTION:
        set_statistics(node, values[:-1])
        node[KEY] = values[-1]
    else:
        set_statistics(node, values)


@lru_cache(maxsize=1)
def position_weights() -> NDArray[np.float64]:
    """Return t, the weights of the positions in a block."""
    return _weights(0, BLOCK)


@lru_cache(maxsize=64)
def block_weights(blocks: int) -> NDArray[np.float64]:
    """Return c, the weights of the first ``blocks`` blocks."""
    return _weights(_BLOCKS_START, blocks)


def projection(values: NDArray[Any]) -> float | None:
    """Return the projection of real elements in row-major order, in the unit of the data; None without elements."""
    flat = values.reshape(-1)
    if flat.size == 0:
        return None
    factors = block_weights(-(-flat.size // BLOCK))
    sums = []
    with np.errstate(all="ignore"):
        for number, factor in enumerate(factors.tolist()):
            part = flat[number * BLOCK : (number + 1) * BLOCK].astype(np.float64)
            sums.append(float(part @ position_weights()[: part.size]) * factor)
        return math.fsum(sums) if all(map(math.isfinite, sums)) else float(np.sum(sums))
