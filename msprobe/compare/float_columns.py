"""Which statistics columns show integers as floats: those that hold integers beside floats and no text.

Readers that load the published tables see such columns as floats, so ``1`` stands there as ``1.0``.
"""

from __future__ import annotations

from operator import ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import Leaf
from msprobe.compare.table import LeafTable

_STATISTICS = ("Max", "Min", "Mean", "Norm")
_BOTH = {int, float}


def float_columns(table: LeafTable) -> tuple[bool, ...]:
    """For each of the eight statistics columns, target first: whether it shows floats only."""
    pairs = table.float_pairs
    others = np.ones(table.rows, np.bool_)
    others[pairs.rows] = False
    rows = others.nonzero()[0].tolist()
    sides = (table.target, pairs.values[:, :4]), (table.golden, pairs.values[:, 4:])
    found: list[bool] = []
    for leaves, floats in sides:
        found += _of_side([leaves[row] for row in rows], floats)
    return tuple(found)


def _of_side(leaves: list[Leaf | None], floats: NDArray[np.float64]) -> list[bool]:
    """The four columns of a side: of ``floats``, the ordinary rows, and of the leaves of all others."""
    raws: list[Any] = [leaf[2] if leaf is not None else None for leaf in leaves]
    if set(map(type, raws)) - {dict}:
        return [False] * 4
    values = [raw.get("value") for raw in raws if "dtype" not in raw]
    types = set(map(type, values))
    tensors = [tuple(map(raw.get, _STATISTICS)) for raw in raws if "dtype" in raw]
    if not types <= _BOTH or any(map(ne, values, values)) or not (tensors or len(floats)):
        return [False] * 4
    columns = list(zip(*tensors, strict=True)) or [()] * 4
    of_floats = {float} if len(floats) else set()
    without = (~np.isnan(floats).any(axis=0)).tolist()
    return [
        numbers and types | of_floats | set(map(type, column)) == _BOTH and not any(map(ne, column, column))
        for numbers, column in zip(without, columns, strict=True)
    ]
