"""Tensors that calls change in place, and that the forward pass itself has made: no state, which a later step gets."""

from __future__ import annotations

from functools import cached_property

from msprobe.compare.records.entries import stem_of
from msprobe.compare.records.in_place_updates import works_in_place
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.sides import Sides
from msprobe.compare.verdict.twins import Mark, Raw, mark_of
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT
from msprobe.trace.values import signature_of


class Temporaries:
    """What calls of a step make before its last backward pass ends, by its values.

    Args:
        table: both dumps.
        sides: the calls of both.
    """

    def __init__(self, table: LeafTable, sides: Sides) -> None:
        self._table, self._sides = table, sides

    def is_changed(self, entry: int) -> bool:
        """Return whether a call that works in place changes, on both sides, a tensor that a call before it has made of
        others: then its result is no more a state than that of any other call."""
        return entry < self._last_backward and all(self._is_made(side, entry) for side in (0, 1))

    def _is_made(self, side: int, entry: int) -> bool:
        while (given := self._first(side, entry)) is not None and signature_of(given) is not None:
            maker = self._makers[side].get(mark_of(given), entry)
            if maker >= entry:
                return False
            if not self._copies(side, maker):
                return True
            entry = maker
        return False

    def _copies(self, side: int, entry: int) -> bool:
        """Return whether a call returns what it gets, changed in place or not at all."""
        if works_in_place(stem_of(str(self._table.entries[entry][side]))):
            return True
        given = {mark_of(raw) for _, raw in self._sides.leaves(side, entry, INPUT)}
        return any(mark_of(raw) in given for _, raw in self._sides.leaves(side, entry, OUTPUT))

    def _first(self, side: int, entry: int) -> Raw | None:
        return next((raw for _, raw in self._sides.leaves(side, entry, INPUT)), None)

    @cached_property
    def _last_backward(self) -> int:
        backward = Phase.BACKWARD.value
        return max((entry for entry, key in enumerate(self._table.keys) if key.phase == backward), default=0)

    @cached_property
    def _makers(self) -> tuple[dict[Mark, int], dict[Mark, int]]:
        """By side the first call that makes a value."""
        sides: tuple[dict[Mark, int], dict[Mark, int]] = ({}, {})
        for side, makers in enumerate(sides):
            for entry in self._sides.forward(side):
                for _, raw in self._sides.leaves(side, entry, OUTPUT):
                    makers.setdefault(mark_of(raw), entry)
        return sides
