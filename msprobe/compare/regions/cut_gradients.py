"""Where a gradient is cut off: the call that gets a tensor which requires a gradient on one side alone.

``detach`` and ``no_grad`` leave no record of their own. The forward call that gets what they return is the first one
whose input requires a gradient in one run and none in the other; the missing gradient shows much later, in the
backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msprobe.compare.records.entries import is_module, parents_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.numerics.verdict import Ints, Judged, Role, RowKind

_NULL_ON = {RowKind.MISSING_IN_TARGET: "target", RowKind.MISSING_IN_GOLDEN: "golden run"}


def side_without_gradient(table: LeafTable, judged: Judged, entry: int, rows: Sequence[int]) -> str:
    """Return the side on which all gradients in ``rows`` of a backward entry are null; "" where there is none.

    Args:
        table: both dumps.
        judged: the verdicts of all rows.
        entry: the number of the entry; every other phase has no such side.
        rows: the rows of its results that differ.
    """
    sides = {_NULL_ON.get(RowKind(int(judged.kind[row])), "") for row in rows}
    backward = table.keys[entry].phase == Phase.BACKWARD.value
    return sides.pop() if backward and len(sides) == 1 else ""


def cutting_call(table: LeafTable, role: Ints, construct: Mapping[str, Any], entry: int) -> int | None:
    """Return the first forward call before ``entry`` that gets a tensor which requires a gradient on one side alone, or
    the outermost module around it that gets such a tensor; None where there is none.

    Args:
        table: both dumps.
        role: the ``Role`` of each row.
        construct: the parents of the entries of the target.
        entry: the number of the backward entry whose gradient one side lacks.
    """
    first = next((number for number in range(entry) if _is_cut(table, role, number)), None)
    if first is None:
        return None
    keyed = enumerate(zip(table.entries, table.keys, strict=True))
    modules = {pair.target: number for number, (pair, key) in keyed if pair.target and is_module(key)}
    for name in parents_of(construct, table.entries[first].target or ""):
        around = modules.get(name)
        if around is None or not _is_cut(table, role, around):
            break
        first = around
    return first


def _is_cut(table: LeafTable, role: Ints, entry: int) -> bool:
    if table.keys[entry].phase != Phase.FORWARD.value or not table.entries[entry].of_both:
        return False
    return any(role[row] == Role.INPUT and side_requiring(table, row) is not None for row in table.rows_of(entry))


def side_requiring(table: LeafTable, row: int) -> int | None:
    """Return the side, 0 or 1, on which alone the tensor in a row requires a gradient, as far as both sides say whether
    it does; None where they agree, or one does not say."""
    leaves = table.target[row], table.golden[row]
    said = [leaf.raw.get("requires_grad") for leaf in leaves if leaf is not None and isinstance(leaf.raw, dict)]
    once = len(said) == 2 and all(isinstance(value, bool) for value in said) and said[0] != said[1]
    return said.index(True) if once else None
