"""The statistics columns that show integers as floats under the policy ``reference``.

Readers load the published tables with pandas, which turns a column of integers and floats into floats: ``1`` stands
there as ``1.0``. The policy ``default`` shows integers as integers.

A column shows floats if its cells are integers and floats only, and some row of its side is a tensor. What the cells
are is collected as words, so that the parts of a table can be looked at apart: ``int``, ``float``, ``tensor``, and
``other`` for everything else, NaN included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import Leaf
from msprobe.compare.plain import COUNT
from msprobe.compare.table import LeafTable
from msprobe.core.tensors.statistics import STATISTIC_NAMES

ColumnTypes = list[list[str]]
"""For each statistics column, those of the target first, the words for its cells, sorted."""
_TYPE_NAMES = {int: "int", float: "float"}
_FLOATS_ONLY = {"int", "float", "tensor"}
NO_FLOAT_COLUMNS = (False,) * (2 * COUNT)


def float_columns(parts: Iterable[ColumnTypes]) -> tuple[bool, ...]:
    """Return for each statistics column of a table in parts whether it shows integers as floats."""
    return tuple(set().union(*words) == _FLOATS_ONLY for words in zip(*parts, strict=True))


def column_types(table: LeafTable) -> ColumnTypes:
    """Return what the cells of each statistics column are."""
    pairs = table.float_pairs
    others = np.ones(table.rows, np.bool_)
    others[pairs.rows] = False
    rows = others.nonzero()[0].tolist()
    types: ColumnTypes = []
    for side, leaves in enumerate((table.target, table.golden)):
        types += _side_types([leaves[row] for row in rows], pairs.values[:, side])
    return types


def _side_types(leaves: Sequence[Leaf | None], ordinary: NDArray[np.float64]) -> ColumnTypes:
    """Return the words of one side. ``ordinary`` are the statistics of ordinary rows, shape (rows, statistics),
    ``leaves`` those of all other rows.
    """
    records: list[Any] = [leaf[2] if leaf is not None else None for leaf in leaves]
    if set(map(type, records)) - {dict}:
        return [["other"]] * COUNT
    arguments = _type_names([record.get("value") for record in records if "dtype" not in record])
    tensors = [tuple(map(record.get, STATISTIC_NAMES)) for record in records if "dtype" in record]
    common = {*arguments, *(["tensor"] if tensors or len(ordinary) else []), *(["float"] if len(ordinary) else [])}
    types = [common | _type_names(column) for column in zip(*tensors, strict=True)] or [common] * COUNT
    with_nan = np.isnan(ordinary).any(axis=0).tolist()
    return [sorted(words | {"other"} if nan else words) for words, nan in zip(types, with_nan, strict=True)]


def _type_names(values: Sequence[Any]) -> set[str]:
    names = {_TYPE_NAMES.get(kind, "other") for kind in set(map(type, values))}
    return names | {"other"} if any(map(ne, values, values)) else names
