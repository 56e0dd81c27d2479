"""Integers beyond 2^53, where float64 no longer tells neighbours apart: their extremes are subtracted as they are."""

from __future__ import annotations

from typing import Any

from msprobe.compare.table import LeafTable
from msprobe.numerics.verdict import Floats, Ints

_EXACT = float(2**53)
_EXTREMES = ("Max", "Min")


def tell_apart(table: LeafTable, rows: Ints, largest: Floats, apart: Floats) -> None:
    """Set ``apart``, how far the extremes of ``rows`` differ, where rounding to float64 hid it.

    ``largest`` are the largest sizes of an extreme on either side; all in data units, one value per row.
    """
    for at in ((largest >= _EXACT) & (apart == 0.0)).nonzero()[0].tolist():
        ours, theirs = table.target[rows[at]], table.golden[rows[at]]
        if ours is not None and theirs is not None:
            apart[at] = max(_apart(ours.raw.get(name), theirs.raw.get(name)) for name in _EXTREMES)


def _apart(ours: Any, theirs: Any) -> float:
    return float(abs(ours - theirs)) if type(ours) is type(theirs) is int else 0.0
