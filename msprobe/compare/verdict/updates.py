"""The parameters after a step: what the calls of its optimizers leave, whatever these calls are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property

from msprobe.compare.records.entries import OPTIMIZER, is_module, stem_of
from msprobe.compare.records.in_place_updates import works_in_place
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.sides import Sides
from msprobe.compare.verdict.twins import Mark, Raw, Twins, mark_of
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER
from msprobe.trace.leaves import element_count
from msprobe.trace.values import signature_of


class Updates:
    """What the optimizers of both sides leave.

    Args:
        table: both dumps.
        sides: the calls of both.
        twins: what is near enough.
        next_agrees: returns whether the next step computes the same forward.
        of_others: whether the sides have other parameters, so that their calls are no pairs.
    """

    def __init__(
        self, table: LeafTable, sides: Sides, twins: Twins, next_agrees: Callable[[], bool], *, of_others: bool
    ) -> None:
        self._table, self._sides, self._twins = table, sides, twins
        self._next_agrees, self._of_others = next_agrees, of_others

    @cached_property
    def agree(self) -> bool:
        """Whether each side updates as many parameters in its own way, and leaves the same ones; or, by other
        optimizers, the next step, which begins with them, computes the same."""
        alone = {*self._calls(0), *self._calls(1)}.intersection(self._table.alone) if not self._table.updated else ()
        others = self._are_others or (bool(alone) and self.elements(0) == self.elements(1))
        return others and (self.leave_the_same or (self._are_others and self._next_agrees()))

    @cached_property
    def _are_others(self) -> bool:
        """Whether the sides update in other ways; parameters of one name are compared one by one, as
        ``exemptions.other_optimizers`` pairs them."""
        alone = any(self._table.keys[one].parent == OPTIMIZER for one in self._table.alone)
        return not self._table.updated and (alone or self._of_others)

    @cached_property
    def leave_the_same(self) -> bool:
        """Whether both sides leave the same values: as tensors, or all together where they are fused or split."""
        results = [self._results(side) for side in (0, 1)]
        left = [[raw for raw in results[side] if not math.isfinite(self._twins.apart(side, raw))] for side in (0, 1)]
        return all(results) and (not any(left) or math.isfinite(self._twins.unions_distance(*left)))

    @cached_property
    def leave_others(self) -> bool:
        """Whether both sides leave as many elements of parameters, with other values, and no next step shows better."""
        trained = all(raw.get("requires_grad") for side in (0, 1) for raw in self._results(side))
        alike = 0.0 < self.elements(0) == self.elements(1)
        return trained and alike and not self.leave_the_same and not self._next_agrees()

    def elements(self, side: int) -> float:
        """Return how many elements the updates of a side leave."""
        return sum(map(element_count, self._results(side)))

    @cached_property
    def shapes(self) -> list[frozenset[str]]:
        """By side the shapes of its parameters, and of what its updates leave."""
        values = ((*self._parameters(side), *self._results(side)) for side in (0, 1))
        return [frozenset(str(raw.get("shape")) for raw in own) for own in values]

    def _parameters(self, side: int) -> Iterator[Raw]:
        return (raw for entry in self._sides.forward(side) for raw in self._at(side, entry, PARAMETER))

    def _results(self, side: int) -> list[Raw]:
        """Return the last value of each tensor that calls update in place, beginning with a parameter of a module that
        is known from the state of an optimizer (not all zeros); where they update none of these, with any tensor that
        needs a gradient, as a parameter does, or with any."""
        begin = {mark_of(raw) for raw in self._parameters(side) if signature_of(raw) is not None}
        if left := self._last_values(side, begin):
            return left
        left = self._last_values(side, None)
        return [raw for raw in left if raw.get("requires_grad")] or left

    def _last_values(self, side: int, begin: set[Mark] | None) -> list[Raw]:
        last: dict[Mark, Raw] = {}
        for entry in self._calls(side):
            if not self._is_in_place(side, entry):
                continue
            given = next(map(mark_of, self._at(side, entry, INPUT)), None)
            if begin is not None and given not in begin and given not in last:
                continue
            if given is not None:
                last.pop(given, None)
            last |= {mark_of(raw): raw for raw in self._at(side, entry, OUTPUT)}
        return [raw for raw in last.values() if element_count(raw) > 1]

    def _at(self, side: int, entry: int, slot: str) -> Iterator[Raw]:
        return (raw for _, raw in self._sides.leaves(side, entry, slot))

    @cached_property
    def calls(self) -> frozenset[int]:
        """The calls that make the updates: those of optimizers, and functions outside of modules between the backward
        passes and the last update."""
        keys, updates = self._table.keys, {*self._calls(0), *self._calls(1)}
        backward = (entry for entry, key in enumerate(keys) if key.phase == Phase.BACKWARD.value)
        between = range(max(backward, default=len(keys)) + 1, max(updates, default=0))
        return frozenset(updates.union(entry for entry in between if self._is_outside(entry)))

    def _calls(self, side: int) -> list[int]:
        """Return the calls of optimizers, and others outside of modules that change a tensor in place."""
        own = (number for number, pair in enumerate(self._table.entries) if pair[side] is not None)
        outside = (one for one in own if self._is_outside(one))
        return [one for one in outside if self._table.keys[one].parent == OPTIMIZER or self._is_in_place(side, one)]

    def _is_outside(self, entry: int) -> bool:
        """Return whether an entry is a function that an optimizer, or the program outside of modules, calls."""
        key = self._table.keys[entry]
        return key.phase == Phase.FORWARD.value and key.parent in ("", OPTIMIZER) and not is_module(key)

    def _is_in_place(self, side: int, entry: int) -> bool:
        return works_in_place(stem_of(str(self._table.entries[entry][side])))
