"""Tensors of another layout within one program: whether a later value shows the right order.

``exemptions.tensor_layouts`` lets values decide about the same elements in another shape, as far as statistics tell
that no order changes. A tensor that was cut up in the wrong order has these statistics too. So such rows are a
difference after all

- where nothing that both sides compare later has the same shape on both sides: nothing shows the order;
- where the first wrong value has the same elements in another order, or a function makes something else, or another
  number of elements, of such a tensor: the calls of another layout by which it came about are where that arises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from msprobe.compare.records.entries import is_module
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor
from msprobe.numerics.verdict import Judged, Level, RowKind
from msprobe.trace.likeness import same_values


def has_other_layouts(judged: Judged) -> bool:
    """Return whether tensors have the same elements in another shape."""
    return bool((judged.kind == RowKind.OTHER_LAYOUT).any())


def restore_unshown(table: LeafTable, judged: Judged) -> None:
    """Make a difference of the rows of another layout after which nothing shows the order of their elements."""
    rows = (judged.kind == RowKind.OTHER_LAYOUT).nonzero()[0]
    last = _last_shown(table, judged)
    _restore([row for row in rows.tolist() if row >= last], judged)


def _last_shown(table: LeafTable, judged: Judged) -> int:
    """Return the last row of a forward or backward call that both sides have and whose tensors have one shape."""
    layouts = judged.kind == RowKind.OTHER_LAYOUT
    for row in range(table.row_count - 1, -1, -1):
        sides = table.target[row], table.golden[row]
        if all(leaf is not None and leaf.slot in (INPUT, OUTPUT) and is_tensor(leaf.raw) for leaf in sides):
            (entry,) = table.entries_of([row])
            rows = table.rows_of(entry)
            if not layouts[rows.start : rows.stop].any():
                return row
    return 0


def restore_origins(table: LeafTable, judged: Judged, first: int) -> bool:
    """Make a difference of the rows of another layout by which the first wrong value came about.

    ``first`` is the entry of this value. Return whether there are any.
    """
    found: set[int] = set()
    waiting = list(_wrong_order(table, judged, first))
    while waiting:
        row = waiting.pop()
        for maker in _makers(table, judged, row):
            rows = _layout_rows(table, judged, maker)
            if not found.issuperset(rows):
                found.update(rows)
                waiting += [one for one in rows if _slot(table, one) == INPUT]
    if found:
        found.update(_layout_rows(table, judged, first))
    _restore(sorted(found), judged)
    return bool(found)


def _wrong_order(table: LeafTable, judged: Judged, entry: int) -> Iterator[int]:
    """Yield the rows of an entry that have the same elements in another order, or in another shape where that makes
    results of other sizes."""
    rows = table.rows_of(entry)
    by_order = any(judged.kind[row] == RowKind.SHAPE for row in rows) or _depends_on_order(table, judged, entry)
    for row in rows:
        if judged.kind[row] == RowKind.OTHER_LAYOUT:
            if by_order:
                yield row
        elif judged.kind[row] == RowKind.VALUE and _has_same_elements(table, row):
            yield row


def _depends_on_order(table: LeafTable, judged: Judged, entry: int) -> bool:
    """Return whether a function makes something else of the same elements and arguments on both sides."""
    differing = [row for row in table.rows_of(entry) if judged.kind[row] > RowKind.UNCHECKED]
    return not is_module(table.keys[entry]) and all(_slot(table, row) == OUTPUT for row in differing)


def _has_same_elements(table: LeafTable, row: int) -> bool:
    tensors = table.tensors(row)
    return len(tensors) == 2 and same_values(tensors[0], tensors[1])


def _makers(table: LeafTable, judged: Judged, row: int) -> Iterator[int]:
    """Yield the last entry before a row that returns its elements in another layout, if there is one."""
    leaf = table.target[row]
    layouts = (judged.kind[:row] == RowKind.OTHER_LAYOUT).nonzero()[0]
    for earlier in reversed(layouts.tolist()):
        made = table.target[earlier]
        if leaf is not None and made is not None and made.slot == OUTPUT and same_values(leaf.raw, made.raw):
            yield from table.entries_of([earlier])
            return


def _layout_rows(table: LeafTable, judged: Judged, entry: int) -> list[int]:
    return [row for row in table.rows_of(entry) if judged.kind[row] == RowKind.OTHER_LAYOUT]


def _slot(table: LeafTable, row: int) -> str:
    leaf = table.target[row]
    return "" if leaf is None else leaf.slot


def _restore(rows: Sequence[int], judged: Judged) -> None:
    judged.kind[np.array(rows, np.int64)] = RowKind.SHAPE
    judged.level[np.array(rows, np.int64)] = Level.ERROR
