"""What counts as a difference between two programs that do the same in different words.

A value that only one of them records cannot be checked, which is no difference: unless it belongs to a lost layer, or
is a parameter that a layer and its partner do not share. Between two frameworks the same goes
for arguments that are no tensors (an axis, a shape, a flag: their effect shows in the result) and for the width of
integers, which frameworks choose by themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import PARAMETER, PARAMETER_GRAD
from msprobe.compare.table import LeafTable
from msprobe.core.naming.model import MODULE_PREFIXES
from msprobe.core.tensors.dtypes import Kind as DtypeKind
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.verdict import Kind

# MindSpore calls these parameters, PyTorch does not.
_RUNNING = frozenset({"moving_mean", "moving_variance", "running_mean", "running_var"})


def loosen(table: LeafTable, kinds: NDArray[np.int64]) -> None:
    """Lower the kinds of a loose table, as found before any tolerance."""
    rows = (kinds >= Kind.MISSING_IN_GOLDEN).nonzero()[0]
    for row, entry in zip(rows.tolist(), table.entry_of_row()[rows].tolist(), strict=True):
        if not _is_missing(table, entry, row):
            kinds[row] = Kind.UNCHECKED
    if not table.across:
        return
    kinds[kinds == Kind.ARGUMENT] = Kind.UNCHECKED
    for row in (kinds == Kind.DTYPE).nonzero()[0].tolist():
        ours, theirs = table.target[row], table.golden[row]
        if ours is not None and theirs is not None and _is_integer(ours.raw) and _is_integer(theirs.raw):
            kinds[row] = Kind.NONE


def _is_missing(table: LeafTable, entry: int, row: int) -> bool:
    pair = table.entries[entry]
    if pair.target is None or pair.golden is None:
        return not pair.benign
    leaf = table.target[row] or table.golden[row]
    if leaf is None or leaf.slot not in (PARAMETER, PARAMETER_GRAD) or not (_is_layer(pair.target, pair.golden)):
        return False
    return leaf.suffix.rpartition(".")[2] not in _RUNNING


def _is_layer(*names: str) -> bool:
    return all(name.partition(".")[0] in MODULE_PREFIXES for name in names)


def _is_integer(raw: Any) -> bool:
    known = find_dtype(str(raw["dtype"]))
    return known is not None and known.kind is DtypeKind.INT
