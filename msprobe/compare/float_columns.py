"""Which statistics columns show integers as floats: those that hold integers beside floats and no text.

Readers that load the published tables see such columns as floats, so ``1`` stands there as ``1.0``. What decides is
found per part of a table and put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ne
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import Leaf
from msprobe.compare.table import LeafTable

_STATISTICS = ("Max", "Min", "Mean", "Norm")
_BOTH = {"int", "float"}
_NAMES = {int: "int", float: "float"}


class SideTypes(NamedTuple):
    """What one side of some rows holds: whether all are descriptions; the types of arguments, and whether one is NaN;
    whether there is a tensor; per statistics column its types, and whether it is free of NaN."""

    described: bool = True
    arguments: frozenset[str] = frozenset()
    odd: bool = False
    tensors: bool = False
    columns: Sequence[frozenset[str]] = (frozenset(),) * 4
    clean: Sequence[bool] = (True,) * 4


def float_columns(table: LeafTable) -> tuple[bool, ...]:
    """For each of the eight statistics columns, target first: whether it shows floats only."""
    return shown_as_floats([side_types(table)])


def shown_as_floats(parts: Sequence[tuple[SideTypes, SideTypes]]) -> tuple[bool, ...]:
    """The same of a table in parts."""
    return tuple(flag for side in zip(*parts, strict=True) for flag in _of_side(side))


def side_types(table: LeafTable) -> tuple[SideTypes, SideTypes]:
    """What target and golden of a table hold."""
    pairs = table.float_pairs
    others = np.ones(table.rows, np.bool_)
    others[pairs.rows] = False
    rows = others.nonzero()[0].tolist()
    ours, theirs = ([side[row] for row in rows] for side in (table.target, table.golden))
    return _types(ours, pairs.values[:, :4]), _types(theirs, pairs.values[:, 4:])


def _types(leaves: list[Leaf | None], floats: NDArray[np.float64]) -> SideTypes:
    """Of the ordinary rows ``floats``, and of the leaves of all others."""
    raws: list[Any] = [leaf[2] if leaf is not None else None for leaf in leaves]
    if set(map(type, raws)) - {dict}:
        return SideTypes(described=False)
    values = [raw.get("value") for raw in raws if "dtype" not in raw]
    tensors = [tuple(map(raw.get, _STATISTICS)) for raw in raws if "dtype" in raw]
    columns = list(zip(*tensors, strict=True)) or [()] * 4
    ordinary = frozenset({"float"} if len(floats) else ())
    without = (~np.isnan(floats).any(axis=0)).tolist()
    return SideTypes(
        arguments=_named(values),
        odd=any(map(ne, values, values)),
        tensors=bool(tensors) or len(floats) > 0,
        columns=[ordinary | _named(column) for column in columns],
        clean=[free and not any(map(ne, column, column)) for free, column in zip(without, columns, strict=True)],
    )


def _named(values: Sequence[Any]) -> frozenset[str]:
    return frozenset(_NAMES.get(kind, "other") for kind in set(map(type, values)))


def _of_side(parts: Sequence[SideTypes]) -> list[bool]:
    arguments = frozenset[str]().union(*(part.arguments for part in parts))
    described = all(part.described for part in parts) and any(part.tensors for part in parts)
    if not described or not arguments <= _BOTH or any(part.odd for part in parts):
        return [False] * 4
    return [
        all(part.clean[k] for part in parts) and arguments.union(*(part.columns[k] for part in parts)) == _BOTH
        for k in range(4)
    ]
