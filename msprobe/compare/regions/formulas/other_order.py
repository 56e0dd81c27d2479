"""Calls that both sides make with the same values, one side at another place of the same module.

Calls of a module pair in their order. Where a loop goes through its cells in another order, or a sum has its operands
exchanged, such a pair differs although each of both calls has a counterpart: one of the same function in the same
module, with the same inputs and results. These pairs are not where another difference arises, which is behind them.

They stay a difference where nothing else differs, and where the first other difference is one of order alone, or gets
the operands of the other side in exchanged places: then the order of the calls is what makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

from msprobe.compare.records.entries import OF_PARAMETERS, is_module
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import is_tensor
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import NORM
from msprobe.numerics.verdict import Judged, Measured, Role, RowKind
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import same_values
from msprobe.trace.values import has_same_order

_MOST_LOOKUPS = 2000
_Raw = Mapping[str, Any]
_Values = list[tuple[str, _Raw]]


class OtherOrder:
    """Finds pairs of such calls.

    Args:
        table: both dumps.
        measured: the differences of all rows.
        judged: the verdicts of all rows.
        differing: the entries that differ. A pair that agrees takes part in no other order.
    """

    def __init__(self, table: LeafTable, measured: Measured, judged: Judged, differing: Collection[int]) -> None:
        self._table, self._measured, self._kind = table, measured, judged.kind
        self._differing = frozenset(differing)
        self._lookups = 0

    def before(self, differing: Collection[int]) -> frozenset[int]:
        """Return those of these entries that are in another order, and before the first one that is not."""
        moved: set[int] = set()
        for number in sorted(differing):
            if self._is_moved(number):
                moved.add(number)
            else:
                made_by_order = self._is_order_alone(number) or self._has_exchanged_inputs(number)
                return frozenset() if made_by_order else frozenset(moved)
        return frozenset()

    def _is_moved(self, number: int) -> bool:
        key = self._table.keys[number]
        if is_module(key) or key.parent in OF_PARAMETERS or not self._differs_in_values(number):
            return False
        return all(self._has_counterpart(number, side) for side in (0, 1))

    def _differs_in_values(self, number: int) -> bool:
        """Return whether floating-point values differ in an entry, and nothing else: statistics of truth values and of
        small integers may be equal by chance."""
        wrong = [row for row in self._table.rows_of(number) if self._kind[row] > RowKind.UNCHECKED]
        is_float = self._measured.roundoff > 0.0
        return bool(wrong) and all(self._kind[row] == RowKind.VALUE and is_float[row] for row in wrong)

    def _has_counterpart(self, number: int, side: int) -> bool:
        """Return whether the other side makes the call of this side somewhere in the same module."""
        key = self._table.keys[number]
        own = list(self._values(number, side))
        for other in self._calls.get((key.stem, key.parent, key.phase), ()):
            self._lookups += 1
            if self._lookups > _MOST_LOOKUPS:
                return False
            if _are_equal(own, list(self._values(other, 1 - side))):
                return True
        return False

    def _is_order_alone(self, number: int) -> bool:
        """Return whether nothing but the order of elements differs in an entry."""
        measured, rows = self._measured, self._table.rows_of(number)
        wrong = [row for row in rows if self._kind[row] > RowKind.UNCHECKED]
        return all(
            self._kind[row] == RowKind.OTHER_LAYOUT
            or (
                self._kind[row] == RowKind.VALUE
                and measured.projection[row] > max(measured.element[row], measured.mean[row], measured.norm[row])
            )
            for row in wrong
        )

    def _has_exchanged_inputs(self, number: int) -> bool:
        """Return whether the wrong inputs of an entry are those of the other side in other places, whatever the order
        of their elements: one of them may be transposed."""
        role = self._measured.role
        wrong = [row for row in self._table.rows_of(number) if self._kind[row] > RowKind.UNCHECKED]
        inputs = [row for row in wrong if role[row] == Role.INPUT]
        target, golden = (
            [("", leaf.raw) for row in inputs if (leaf := leaves[row]) is not None and is_tensor(leaf.raw)]
            for leaves in (self._table.target, self._table.golden)
        )
        return len(inputs) > 1 and _are_equal(target, golden, same_values)

    @cached_property
    def _calls(self) -> dict[tuple[str, str, str], list[int]]:
        """The entries of each function in each module and phase that differ, or that one side lacks."""
        calls: dict[tuple[str, str, str], list[int]] = {}
        for number in sorted(self._differing.union(self._table.alone)):
            key = self._table.keys[number]
            calls.setdefault((key.stem, key.parent, key.phase), []).append(number)
        return calls

    def _values(self, number: int, side: int) -> Iterator[tuple[str, _Raw]]:
        """Yield the tensors that a side has in an entry, with their slots."""
        leaves = (self._table.target, self._table.golden)[side]
        for row in self._table.rows_of(number):
            leaf = leaves[row]
            if leaf is not None and is_tensor(leaf.raw):
                yield leaf.slot, leaf.raw


def _are_same(raw: _Raw, other: _Raw) -> bool:
    """Return whether two tensors have the same elements, in the same order as far as that is recorded."""
    recorded = raw.get(KEY) is not None and other.get(KEY) is not None
    return same_values(raw, other) and (not recorded or has_same_order(raw, other, as_float(raw.get(NORM.name))))


def _are_equal(values: _Values, others: _Values, same_tensor: Callable[[_Raw, _Raw], bool] = _are_same) -> bool:
    """Return whether two calls have the same tensors, in whatever order."""
    if not values or len(values) != len(others):
        return False
    left = list(others)
    for slot, raw in values:
        count = element_count(raw)
        same = (
            place
            for place, (other_slot, other) in enumerate(left)
            if slot == other_slot and count == element_count(other) and same_tensor(raw, other)
        )
        if (place := next(same, None)) is None:
            return False
        del left[place]
    return True
