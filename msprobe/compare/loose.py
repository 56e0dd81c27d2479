"""Two different programs: which kinds of differences between paired entries are none.

A value that only one program records cannot be checked. It is a difference only where it belongs to a lost layer, is a
parameter that a layer and its partner do not share, or is the (first) result of a forward call that the partner
recorded as null. Further results, arguments and gradients may be null in one program (``not_compared`` counts them).
Between two frameworks this also holds for arguments that are no tensors (an axis, a shape, a flag: their effect shows
in the result), and for the width of integers, which frameworks choose by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msprobe.compare.items import OUTPUT, PARAMETER, PARAMETER_GRAD, Leaf, is_tensor
from msprobe.compare.table import LeafTable
from msprobe.core.naming.model import MODULE_PREFIXES, Phase
from msprobe.core.tensors.dtypes import Kind as DtypeKind
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.verdict import Ints, Kind

# MindSpore calls these parameters, PyTorch does not.
_RUNNING = frozenset({"moving_mean", "moving_variance", "running_mean", "running_var"})


def relax_kinds(table: LeafTable, kinds: Ints) -> None:
    """Lower the ``kinds`` of the rows of a loose table in place; kinds are those known without a tolerance."""
    rows = (kinds >= Kind.MISSING_IN_GOLDEN).nonzero()[0]
    for row, entry in zip(rows.tolist(), table.entry_of_row()[rows].tolist(), strict=True):
        if not _is_missing(table, entry, row):
            kinds[row] = Kind.UNCHECKED
    if not table.across:
        return
    kinds[kinds == Kind.ARGUMENT] = Kind.UNCHECKED
    for row in (kinds == Kind.DTYPE).nonzero()[0].tolist():
        target, golden = table.target[row], table.golden[row]
        if target is not None and golden is not None and _is_integer(target.raw) and _is_integer(golden.raw):
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
    """Return whether the row holds the first result of a forward call, a tensor, which the other side records as
    null."""
    if table.key(entry).phase != Phase.FORWARD.value:
        return False
    target_row, target = _first_result(table.target, table, entry)
    golden_row, golden = _first_result(table.golden, table, entry)
    if target is None or golden is None:
        return False
    if target.raw is None:
        return row == golden_row and is_tensor(golden.raw)
    return row == target_row and golden.raw is None and is_tensor(target.raw)


def _first_result(side: Sequence[Leaf | None], table: LeafTable, entry: int) -> tuple[int, Leaf | None]:
    """Return row and leaf of the first result of a side in an entry; (-1, None) where it has none."""
    results = [(row, leaf) for row in table.rows_of(entry) if (leaf := side[row]) is not None and leaf.slot == OUTPUT]
    return min(results, key=lambda result: (len(result[1].suffix), result[1].suffix), default=(-1, None))


def _is_layer(*names: str) -> bool:
    return all(name.partition(".")[0] in MODULE_PREFIXES for name in names)


def _is_integer(raw: Any) -> bool:
    dtype = find_dtype(str(raw["dtype"]))
    return dtype is not None and dtype.kind is DtypeKind.INT
