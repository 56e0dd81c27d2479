"""The statistics that dumps recorded for the tensors in some rows, and what follows from dtype and shape, as arrays."""

from __future__ import annotations

import math
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import element_count, longest_axis
from msprobe.compare.plain import COUNT
from msprobe.compare.table import LeafTable
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Floats

_Matrix = tuple[Floats, NDArray[np.bool_]]
_NUMBERS = {float, int, bool}


def statistics(table: LeafTable, rows: NDArray[np.int64]) -> tuple[_Matrix, _Matrix]:
    """Return the statistics of target and golden in these rows.

    Each side is a pair of arrays of shape (rows, statistics): the values, NaN where absent or no number, and whether
    they are absent.
    """
    ordinary, positions = _ordinary(table, rows)
    values = np.zeros((len(rows), 2, COUNT))
    absent = np.zeros((len(rows), 2, COUNT), np.bool_)
    values[ordinary] = table.float_pairs.values[positions]
    others = rows[~ordinary].tolist()
    if others:
        for number, side in enumerate((table.target, table.golden)):
            values[~ordinary, number], absent[~ordinary, number] = _matrix([side[row][2] for row in others])
    return (values[:, 0], absent[:, 0]), (values[:, 1], absent[:, 1])


def properties(table: LeafTable, rows: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Return unit roundoff, element count and longest axis of the golden tensors, one value each per row."""
    ordinary, positions = _ordinary(table, rows)
    samples = table.float_pairs.samples
    others = [table.golden[row][2] for row in rows[~ordinary].tolist()]
    raws = [theirs for _, theirs in samples] + others
    described = np.empty(len(rows), np.int64)
    described[ordinary] = table.float_pairs.frames[positions]
    described[~ordinary] = np.arange(len(samples), len(raws))
    dtypes = [str(raw["dtype"]) for raw in raws]
    roundoff_of = {dtype: unit_roundoff(dtype) for dtype in set(dtypes)}
    roundoff = np.array([roundoff_of[dtype] for dtype in dtypes])
    numel = np.array([element_count(raw) for raw in raws])
    longest = np.array([longest_axis(raw) for raw in raws], np.float64)
    return roundoff[described], numel[described], longest[described]


def _ordinary(table: LeafTable, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which of these rows (ascending) are in ``table.float_pairs``, and the positions of those there."""
    ordinary = table.float_pairs.rows
    positions = np.searchsorted(ordinary, rows)
    inside = positions < len(ordinary)
    inside[inside] = ordinary[positions[inside]] == rows[inside]
    return inside, positions[inside]


def _matrix(raws: list[Any]) -> _Matrix:
    """Return the statistics of every record, NaN where absent, and where they are absent."""
    shape = len(raws), COUNT
    try:
        recorded = list(map(itemgetter(*STATISTIC_NAMES), raws))
        if set(map(type, chain.from_iterable(recorded))) <= _NUMBERS:
            return np.array(recorded, np.float64).reshape(shape), np.zeros(shape, np.bool_)
    except (KeyError, OverflowError):
        recorded = [tuple(raw.get(name) for name in STATISTIC_NAMES) for raw in raws]
    values = np.array([[_number(value) for value in line] for line in recorded]).reshape(shape)
    return values, np.array([[value is None for value in line] for line in recorded], np.bool_).reshape(shape)


def _number(value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
