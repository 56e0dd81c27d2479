"""Exemption for tensors that two programs keep in another layout: channels last, batch first, a transposed weight.

Where both sides have as many elements, the values decide: the statistics that do not depend on the order. What the
order makes of them shows in the next operation that computes. A note names the first tensor of another layout; axes of
length 1 alone (the kernel of a one-dimensional convolution) are no other layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.records.note import Note
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.tensors.dtypes import same_dtype
from msprobe.numerics.verdict import Ints, RowKind
from msprobe.trace.leaves import is_shape, row_name


class Layouts(Exemption):
    """Lets values decide about tensors that differ in shape and not in size."""

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kind of rows whose shapes differ and hold as many elements."""
        for row in (kinds == RowKind.SHAPE).nonzero()[0].tolist() if table.loose else ():
            target, golden = _shapes(table, row)
            if math.prod(target) == math.prod(golden):
                kinds[row] = RowKind.NONE if _same_dtype(table, row) else RowKind.DTYPE

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
