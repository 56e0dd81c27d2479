"""The common subsequence with the greatest sum of weights, in a band around the diagonal when the lists are long.

Dynamic programming row by row (Needleman and Wunsch, J. Mol. Biol. 48, 1970, with free gaps):
``best[i, j] = max(best[i-1, j], best[i, j-1], best[i-1, j-1] + weight[i, j])``. Between equal sums the earliest
pairing wins, so that a surplus call at the end stays alone when nothing tells the calls apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WeightRow = Callable[[int, int, int], Floats]
"""Element of the left list, start and stop in the right one, to weights; 0 forbids the pair."""
_MOST_CELLS = 8_000_000
_PAIR, _UP, _LEFT = 0, 1, 2


def weighted_subsequence(left: int, right: int, weights: WeightRow) -> list[tuple[int, int]]:
    """Pairs of positions, ascending, of two lists of these lengths."""
    if not left or not right:
        return []
    width = min(right, max(_MOST_CELLS // left, 256))
    centres = (np.arange(left) * (right / left)).astype(np.int64)
    starts = np.clip(centres - width // 2, 0, right - width)
    steps = np.zeros((left, width), np.uint8)
    best = np.zeros(right + 1)
    for i in range(left):
        start = int(starts[i])
        stop = start + width
        weight = weights(i, start, stop)
        above = best[start + 1 : stop + 1]
        pair = np.where(weight > 0.0, best[start:stop] + weight, -1.0)
        row = np.maximum(above, pair)
        row[0] = max(row[0], best[start])
        row = np.maximum.accumulate(row)
        before = np.concatenate((best[start : start + 1], row[:-1]))
        steps[i] = np.where(row == above, _UP, np.where(row == before, _LEFT, _PAIR))
        best[start + 1 : stop + 1] = row
        best[stop + 1 :] = np.maximum(best[stop + 1 :], row[-1])
    return _walk_back(steps, starts)


def _walk_back(steps: NDArray[np.uint8], starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    i, j = len(steps) - 1, int(starts[-1]) + steps.shape[1] - 1
    while i >= 0 and j >= 0:
        at = j - int(starts[i])
        if at < 0:
            i -= 1
            continue
        if at >= steps.shape[1]:
            j = int(starts[i]) + steps.shape[1] - 1
            continue
        step = steps[i, at]
        if step == _UP:
            i -= 1
        elif step == _LEFT:
            j -= 1
        else:
            found.append((i, j))
            i, j = i - 1, j - 1
    return found[::-1]
