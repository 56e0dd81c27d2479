"""What the tensors in some rows have recorded, as arrays: their statistics, and what follows from dtype and shape."""

from __future__ import annotations

import math
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import element_count, longest_axis
from msprobe.compare.table import LeafTable
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Floats

_Matrix = tuple[Floats, NDArray[np.bool_]]
_STATISTICS = ("Max", "Min", "Mean", "Norm")
_NUMBERS = {float, int, bool}


def statistics(table: LeafTable, rows: NDArray[np.int64]) -> tuple[_Matrix, _Matrix]:
    """The matrices of target and golden for these rows."""
    ordinary, at = _ordinary(table, rows)
    values = np.zeros((len(rows), 8))
    absent = np.zeros((len(rows), 8), np.bool_)
    values[ordinary] = table.float_pairs.values[at]
    others = rows[~ordinary].tolist()
    if others:
        for side, first in ((table.target, 0), (table.golden, 4)):
            four = slice(first, first + 4)
            values[~ordinary, four], absent[~ordinary, four] = _matrix([side[row][2] for row in others])
    return (values[:, :4], absent[:, :4]), (values[:, 4:], absent[:, 4:])


def properties(table: LeafTable, rows: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Unit roundoff, element count and longest axis of the golden tensors in these rows."""
    ordinary, at = _ordinary(table, rows)
    samples = table.float_pairs.samples
    others = [table.golden[row][2] for row in rows[~ordinary].tolist()]
    raws = [theirs for _, theirs in samples] + others
    places = np.empty(len(rows), np.int64)
    places[ordinary] = table.float_pairs.frames[at]
    places[~ordinary] = np.arange(len(samples), len(raws))
    dtypes = [str(raw["dtype"]) for raw in raws]
    known = {dtype: unit_roundoff(dtype) for dtype in set(dtypes)}
    roundoff = np.array([known[dtype] for dtype in dtypes])
    numel = np.array([element_count(raw) for raw in raws])
    longest = np.array([longest_axis(raw) for raw in raws], np.float64)
    return roundoff[places], numel[places], longest[places]


def _ordinary(table: LeafTable, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which of these rows (ascending) are in ``table.float_pairs``, and where those are there."""
    known = table.float_pairs.rows
    at = np.searchsorted(known, rows)
    inside = at < len(known)
    inside[inside] = known[at[inside]] == rows[inside]
    return inside, at[inside]


def _matrix(raws: list[Any]) -> _Matrix:
    """The four statistics of every leaf, NaN where absent, and where they are absent."""
    try:
        found = list(map(itemgetter(*_STATISTICS), raws))
        if set(map(type, chain.from_iterable(found))) <= _NUMBERS:
            return np.array(found, np.float64).reshape(-1, 4), np.zeros((len(raws), 4), np.bool_)
    except (KeyError, OverflowError):
        found = [tuple(raw.get(name) for name in _STATISTICS) for raw in raws]
    values = np.array([[_number(value) for value in four] for four in found]).reshape(-1, 4)
    return values, np.array([[value is None for value in four] for four in found], np.bool_).reshape(-1, 4)


def _number(value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
