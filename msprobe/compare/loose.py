"""What counts as a difference between two programs that do the same in different words.

A value that only one of them records cannot be checked, which is no difference: unless it belongs to a lost layer, is
a parameter that a layer and its partner do not share, or is the (first) result of a forward call, which its partner
has recorded as null. Further results, arguments and gradients may be null in one program alone (``not_compared`` tells
of them). Between two frameworks the same goes for arguments that are no tensors (an axis, a shape, a flag: their effect
shows in the result) and for the width of integers, which frameworks choose by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import OUTPUT, PARAMETER, PARAMETER_GRAD, Leaf, is_tensor
from msprobe.compare.table import LeafTable
from msprobe.core.naming.model import MODULE_PREFIXES, Phase
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
    if _is_lost_result(table, entry, row):
        return True
    leaf = table.target[row] or table.golden[row]
    if leaf is None or leaf.slot not in (PARAMETER, PARAMETER_GRAD) or not (_is_layer(pair.target, pair.golden)):
        return False
    return leaf.suffix.rpartition(".")[2] not in _RUNNING


def _is_lost_result(table: LeafTable, entry: int, row: int) -> bool:
    """Whether the row holds the first result of a forward call, a tensor, which the other side tells as null."""
    if table.key(entry).phase != Phase.FORWARD.value:
        return False
    (at, ours), (other, theirs) = _first_result(table.target, table, entry), _first_result(table.golden, table, entry)
    if ours is None or theirs is None:
        return False
    if ours.raw is None:
        return row == other and is_tensor(theirs.raw)
    return row == at and theirs.raw is None and is_tensor(ours.raw)


def _first_result(side: Sequence[Leaf | None], table: LeafTable, entry: int) -> tuple[int, Leaf | None]:
    """The row and the leaf of the first result that a side has in an entry; (-1, None) without any."""
    rows = range(int(table.starts[entry]), int(table.starts[entry + 1]))
    found = [(row, leaf) for row in rows if (leaf := side[row]) is not None and leaf.slot == OUTPUT]
    return min(found, key=lambda one: (len(one[1].suffix), one[1].suffix), default=(-1, None))


def _is_layer(*names: str) -> bool:
    return all(name.partition(".")[0] in MODULE_PREFIXES for name in names)


def _is_integer(raw: Any) -> bool:
    known = find_dtype(str(raw["dtype"]))
    return known is not None and known.kind is DtypeKind.INT
