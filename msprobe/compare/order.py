"""Differences of the order-sensitive statistic (projection), which the other statistics cannot show."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.table import LeafTable
from msprobe.core.tensors.projection import KEY
from msprobe.numerics.verdict import Floats


def projections_apart(table: LeafTable, rows: NDArray[np.int64]) -> Floats:
    """Return |difference| of the projections of these rows, one float per row in data units; 0 where a side has none or
    one that is not finite."""
    numbers = rows.tolist()
    target, golden = table.target, table.golden
    ours = [target[row][2].get(KEY) for row in numbers]
    if ours.count(None) == len(ours):
        return np.zeros(len(numbers))
    theirs = [golden[row][2].get(KEY) for row in numbers]
    with np.errstate(invalid="ignore"):
        apart = np.abs(_floats(ours) - _floats(theirs))
    return np.where(np.isfinite(apart), apart, 0.0)


def _floats(values: list[Any]) -> Floats:
    return np.array([float(value) if isinstance(value, (int, float)) else math.nan for value in values])
