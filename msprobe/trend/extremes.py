"""Cells of a trend database that stand for several: the value with the largest magnitude, NaN before all others.

A spike is seen however small the picture is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.float32]
ABSENT_BITS: Final = 0x7FC0DEAD
NAN_BITS: Final = 0x7FC00000


def absent_cells(*shape: int) -> Cells:
    """Return cells without a value."""
    return np.full(shape, ABSENT_BITS, np.uint32).view(np.float32)


def is_absent(cells: Cells) -> NDArray[np.bool_]:
    """Return where there is no value."""
    return np.asarray(cells.view(np.uint32) == ABSENT_BITS)


def extremes(cells: Cells, each: int) -> Cells:
    """Return the extreme of each ``each`` neighbouring rows; the last group may be smaller."""
    if each <= 1:
        return cells
    groups = -(-len(cells) // each)
    if len(cells) % each:
        cells = np.concatenate([cells, absent_cells(groups * each - len(cells), *cells.shape[1:])])
    together = cells.reshape(groups, each, *cells.shape[1:])
    high, low = np.maximum.reduce(together, axis=1), np.minimum.reduce(together, axis=1)
    if not np.isnan(high).any():  # nearly always, and three times as fast
        return np.where(-low > high, low, high)
    with np.errstate(invalid="ignore"):
        high, low = np.fmax.reduce(together, axis=1), np.fmin.reduce(together, axis=1)
    result = np.where(-low > high, low, high).astype(np.float32)
    result.view(np.uint32)[np.isnan(result)] = ABSENT_BITS
    odd = np.isnan(together)
    if odd.any():
        measured = odd & (together.view(np.uint32) != ABSENT_BITS)
        result.view(np.uint32)[measured.any(axis=1)] = NAN_BITS
    return result


def reduced(cells: Cells, count: int) -> Cells:
    """Return at most ``count`` rows of cells, each the extreme of as many neighbouring rows."""
    return extremes(cells, -(-len(cells) // max(count, 1)))
