"""Exemption for tensors that are kept in another layout: channels last, batch first, a transposed weight.

Two programs may hold the same elements in another shape, and so may one program before and after a change. Where both
sides have as many elements, the values decide: the statistics that do not depend on the order. What the order makes of
them shows in the next operation that computes. Within one program ``regions.order_of_elements`` takes these rows for a
difference after all where a later value has another order. A note names the first tensor of another layout; axes of
length 1 alone (the kernel of a one-dimensional convolution) are no other layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.records.entries import OF_PARAMETERS
from msprobe.compare.records.note import Note
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.tensors.dtypes import same_dtype
from msprobe.core.tensors.statistics import LARGEST
from msprobe.numerics.verdict import Bools, Ints, Measured, RowKind, beyond_rounding
from msprobe.trace.leaves import as_float, is_shape, row_name


class Layouts(Exemption):
    """Lets values decide about tensors that differ in shape and not in size."""

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kind of rows whose shapes differ and hold as many elements."""
        if not table.loose and (table.published or table.checksums):
            return
        same = RowKind.NONE if table.loose else RowKind.OTHER_LAYOUT
        for row in (kinds == RowKind.SHAPE).nonzero()[0].tolist():
            target, golden = _shapes(table, row)
            if math.prod(target) == math.prod(golden) and (table.loose or _values_decide(table, row)):
                kinds[row] = same if _same_dtype(table, row) else RowKind.DTYPE

    def rows_without_effect(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the arguments that name other axes of a tensor of another layout, in calls whose results agree."""
        arguments = (measured.kind == RowKind.ARGUMENT).nonzero()[0]
        if table.loose or not arguments.size or not (measured.kind == RowKind.OTHER_LAYOUT).any():
            return ()
        beyond = beyond_rounding(measured)
        return [
            row
            for row, entry in zip(arguments.tolist(), table.entry_of_row()[arguments].tolist(), strict=True)
            if _agrees_in_another_layout(table, measured, entry, beyond)
            and (_names_axes(table, row) or _keeps_axes(table, measured, entry))
        ]

    def notes(self, table: LeafTable) -> list[str]:
        """Return a sentence about the tensors of another layout, if there are any."""
        rows = list(_other_layouts(table)) if table.loose and not table.checksums else []
        if not rows:
            return []
        leaf = table.target[rows[0]]
        entry = table.entries[int(table.entry_of_row()[rows[0]])]
        name = row_name(entry.name, leaf) if leaf is not None else entry.name
        target, golden = map(list, _shapes(table, rows[0]))
        end = "another shape of the same size"
        first = f"{name}: {target} in the target, {golden} in the golden run"
        after = "; their values were compared without regard to their order"
        one, many = f"layout differs: 1 tensor has {end}", f"layout differs: {{}} tensors have {end}"
        return [Note(len(rows), one, many, first, after)]


def _names_axes(table: LeafTable, row: int) -> bool:
    """Return whether an argument of both sides is an integer, or several."""
    sides = table.target[row], table.golden[row]
    values = [leaf.raw.get("value") if leaf is not None and isinstance(leaf.raw, dict) else None for leaf in sides]
    return all(
        values and all(type(value) is int for value in values)
        for values in (value if isinstance(value, list) else [value] for value in values)
    )


def _keeps_axes(table: LeafTable, measured: Measured, entry: int) -> bool:
    """Return whether the results of a call have the same axes but for those of length 1 (``keepdim``)."""
    layouts = [row for row in table.rows_of(entry) if measured.kind[row] == RowKind.OTHER_LAYOUT]
    return all(_long_axes(target) == _long_axes(golden) for target, golden in (_shapes(table, row) for row in layouts))


def _agrees_in_another_layout(table: LeafTable, measured: Measured, entry: int, beyond: Bools) -> bool:
    """Return whether the first tensor that a call gets or returns has another layout, and nothing but arguments
    differs."""
    rows = table.rows_of(entry)
    firsts: dict[str, int] = {}
    for row in rows:
        leaf = table.target[row]
        if leaf is not None and is_tensor(leaf.raw):
            firsts.setdefault(leaf.slot, row)
    differs = (row for row in rows if beyond[row] or measured.kind[row] > RowKind.ARGUMENT)
    return any(measured.kind[row] == RowKind.OTHER_LAYOUT for row in firsts.values()) and not any(differs)


def _values_decide(table: LeafTable, row: int) -> bool:
    """Return whether the values of a tensor are known, and its shape does not tell of which parameter it is."""
    (entry,) = table.entries_of([row])
    if table.keys[entry].parent in OF_PARAMETERS:
        return False
    sides = table.target[row], table.golden[row]
    return all(leaf is not None and math.isfinite(as_float(leaf.raw.get(LARGEST.name))) for leaf in sides)


def _other_layouts(table: LeafTable) -> Iterator[int]:
    for row in range(table.row_count):
        leaf, partner = table.target[row], table.golden[row]
        if leaf is None or partner is None or not (is_tensor(leaf.raw) and is_tensor(partner.raw)):
            continue
        if leaf.raw["shape"] == partner.raw["shape"]:
            continue
        target, golden = _shapes(table, row)
        if math.prod(target) == math.prod(golden) and _long_axes(target) != _long_axes(golden):
            yield row


def _long_axes(shape: tuple[int, ...]) -> list[int]:
    return [length for length in shape if length != 1]


def _shapes(table: LeafTable, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of both sides of a row; of a damaged record one that no tensor has."""
    return _shape(table.target[row], -1), _shape(table.golden[row], -2)


def _shape(leaf: Any, damaged: int) -> tuple[int, ...]:
    shape = leaf.raw["shape"]
    return tuple(shape) if is_shape(shape) else (damaged,)


def _same_dtype(table: LeafTable, row: int) -> bool:
    left, right = (str(side[row].raw["dtype"]) for side in (table.target, table.golden))  # type: ignore[union-attr]
    return left == right or same_dtype(left, right)
