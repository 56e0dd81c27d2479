"""Whether elements stand in another order: what the projections of two runs say beyond their four statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.table import LeafTable
from msprobe.core.tensors.projection import KEY
from msprobe.numerics.verdict import Floats


def projections_apart(table: LeafTable, rows: NDArray[np.int64]) -> Floats:
    """|difference| of the projections of these rows, data units; 0 where a side has none, or one that is not finite."""
    numbers = rows.tolist()
    ours, theirs = ([_projection(side[row]) for row in numbers] for side in (table.target, table.golden))
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.array(ours) - np.array(theirs))
    return np.where(np.isfinite(apart), apart, 0.0)


def _projection(leaf: Any) -> float:
    value = leaf.raw.get(KEY)
    return float(value) if isinstance(value, (int, float)) else math.nan
