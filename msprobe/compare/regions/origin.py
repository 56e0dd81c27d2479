"""Where a difference arises that no call of both sides explains: in calls that one side makes in its own way.

The first wrong value of a call of both sides is followed back on each side, through the calls that only this side makes
(``ValueFlow.chain``). Calls of the two chains that return the same value are the same computation in other words. What
is left is compared by its operators: the first call without counterpart is the origin.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from msprobe.compare.records.entries import is_module
from msprobe.compare.regions.value_flow import ValueFlow
from msprobe.compare.table.table import LeafTable, Origin
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor
from msprobe.numerics.verdict import Judged, Measured, Role, RowKind
from msprobe.trace.leaves import element_count
from msprobe.trace.likeness import is_part, same_values

_Chain = Sequence[int]


Flows = tuple[ValueFlow, ValueFlow]
"""The values of the calls of target and golden run."""


def find_origin(
    table: LeafTable, measured: Measured, judged: Judged, flows: Flows, entry: int, before: int
) -> Origin | None:
    """Return the call of one side in which the difference of an entry arises, or None where no such call does.

    Args:
        table: both dumps.
        measured: the differences of all rows, with their roles.
        judged: the verdicts of all rows.
        flows: the values of both sides.
        entry: the first entry of both sides that differs, or a module around it.
        before: the first entry that differs: only calls before it are looked at.
    """
    return _OriginSearch(table, measured, judged, flows, entry, before).run()


class _OriginSearch:
    def __init__(
        self, table: LeafTable, measured: Measured, judged: Judged, flows: Flows, entry: int, before: int
    ) -> None:
        self._table, self._measured, self._judged = table, measured, judged
        self._entry, self._before = entry, before
        self._flows, self._alone = flows, (flows[0].alone, flows[1].alone)

    def run(self) -> Origin | None:
        """Return the origin."""
        rows = self._boundary_rows()
        alone = self._entry == self._before and not self._has_other_arguments
        near = (self._chain_before, self._chain_beside, self._chain_of_whole) if alone else ()
        for chain, row in itertools.product((self._chain, *near), rows):
            chains = [chain(side, row) for side in (0, 1)]
            if any(chains) and (origin := self._first_difference(chains, row)) is not None:
                return origin
        return self._other_call_beside(rows[0]) if rows else None

    def _other_call_beside(self, row: int) -> Origin | None:
        """Return the last two calls beside the entry, one of each side and between the same calls of both sides, that
        make other results of the same: one side calls another module, or with other parameters."""
        parent, number = self._table.keys[self._entry].parent, self._before
        while parent and number > 0:
            number -= 1
            last = number
            while number >= 0 and (number in self._alone[0] or number in self._alone[1]):
                number -= 1
            calls = [one for one in range(last, number, -1) if self._table.keys[one].parent == parent]
            sides = [[one for one in calls if one in self._alone[side]] for side in (0, 1)]
            for target, golden in itertools.product(*sides):
                if self._makes_others_of_same(target, golden):
                    return Origin(target, golden, self._entry, row)
        return None

    def _makes_others_of_same(self, target: int, golden: int) -> bool:
        """Return whether two calls of one operator, or of two modules of one class, get the same tensors beside
        parameters, and return others of the same size."""
        if (
            self._operator(target) != self._operator(golden)
            or self._table.keys[target].phase != self._table.keys[golden].phase
        ):
            return False
        calls = list(enumerate((target, golden)))
        given, made = (
            [list(self._flows[side].values_of(one, slot)) for side, one in calls] for slot in (INPUT, OUTPUT)
        )
        if not given[0] or [element_count(raw) for raw in made[0]] != [element_count(raw) for raw in made[1]]:
            return False
        return _are_among(given[0], given[1]) and not self._flows[0].returns(target, made[1])

    def _boundary_rows(self) -> list[int]:
        """Return the rows of wrong tensors that an earlier call has made: the inputs of the entry, or the results of a
        module, or of an entry without inputs."""
        rows = self._table.rows_of(self._entry)
        differing = [row for row in rows if self._judged.kind[row] > RowKind.UNCHECKED]
        roles = {row: int(self._measured.role[row]) for row in rows}
        if any(roles[row] == Role.PARAMETER for row in differing):
            return []
        inputs = [row for row in differing if roles[row] == Role.INPUT]
        # What a module gets in another form may be harmless, and another argument is a difference by itself.
        if self._entry != self._before or self._has_other_arguments:
            return [row for row in inputs if self._judged.kind[row] == RowKind.VALUE]
        if inputs:
            return inputs
        has_inputs = any(roles[row] == Role.INPUT for row in rows)
        return differing if is_module(self._table.keys[self._entry]) or not has_inputs else []

    @property
    def _has_other_arguments(self) -> bool:
        return any(self._judged.kind[row] == RowKind.ARGUMENT for row in self._table.rows_of(self._entry))

    def _raw(self, side: int, row: int) -> Any:
        leaf = self._table.leaf(side, row)
        return None if leaf is None else leaf.raw

    def _chain(self, side: int, row: int) -> _Chain:
        """Return the calls of one side alone by which the value of a row came about."""
        maker = self._flows[side].maker(self._raw(side, row), self._before)
        return [] if maker is None else self._flows[side].chain(maker)

    def _chain_before(self, side: int, row: int) -> _Chain:
        """Return the calls of one side alone that end with the last one before the entry, and after the last call of
        both sides, that returns as many elements as the row has."""
        raw = self._raw(side, row)
        if not is_tensor(raw):
            return []
        phase = self._table.keys[self._entry].phase
        for number in range(self._before - 1, -1, -1):
            if number in self._alone[side]:
                if self._makes_agreeing_input(side, number):
                    continue
                results = self._flows[side].values_of(number, OUTPUT)
                if any(element_count(result) == element_count(raw) for result in results):
                    return self._flows[side].chain(number)
            elif number not in self._alone[1 - side] and self._table.keys[number].phase == phase:
                break
        return []

    def _makes_agreeing_input(self, side: int, number: int) -> bool:
        """Return whether a call returns what the entry gets, and what is no difference there."""
        agreeing = [
            self._raw(side, row)
            for row in self._table.rows_of(self._entry)
            if self._measured.role[row] == Role.INPUT and self._judged.kind[row] <= RowKind.UNCHECKED
        ]
        return self._flows[side].returns(number, [raw for raw in agreeing if is_tensor(raw)])

    def _chain_beside(self, side: int, row: int) -> _Chain:
        """Return the calls of one side alone that end with the last one before the entry, directly in the same module.

        Of a module these are the calls inside it. An operation that is not recorded uses what they return, as one that
        works in place.
        """
        key = self._table.keys[self._entry]
        parent = key.stem if int(self._measured.role[row]) == Role.RESULT else key.parent
        number = self._before - 1
        if number not in self._alone[side] or self._table.keys[number].parent != parent or not parent:
            return []
        if self._makes_agreeing_input(side, number):
            return []
        return self._flows[side].chain(number) if self._table.keys[number].phase == key.phase else []

    def _chain_of_whole(self, side: int, row: int) -> _Chain:
        """Return the calls of one side alone that end with the last one, directly in the module around the entry, whose
        result no recorded call gets, and of which the value of a row may be a part, or which may be a part of it:
        indices, and what joins tensors, leave no record."""
        raw, key = self._raw(side, row), self._table.keys[self._entry]
        if not is_tensor(raw):
            return []
        for number in range(self._before - 1, -1, -1):
            if number not in self._alone[side] or self._table.keys[number].parent != key.parent:
                continue
            if self._table.keys[number].phase == key.phase and not self._flows[side].is_shown(number):
                results = self._flows[side].values_of(number, OUTPUT)
                if any(is_part(raw, result) or is_part(result, raw) for result in results):
                    return self._flows[side].chain(number)
        return []

    def _first_difference(self, chains: Sequence[_Chain], row: int) -> Origin | None:
        """Return the first call of two chains that the other one has not, or has with other arguments."""
        target, golden = (self._without_counterpart(side, chains) for side in (0, 1))
        if not target and not golden:
            return None
        i = j = 0
        for own, other in [*self._same_operators(target, golden), (len(target), len(golden))]:
            if i < own or j < other:
                return self._origin(target[i:own], golden[j:other], row)
            i, j = own + 1, other + 1
        return self._origin(target, golden, row)

    def _origin(self, target: _Chain, golden: _Chain, row: int) -> Origin:
        first = [
            self._flows[side].outermost(chain[0]) if chain else None for side, chain in enumerate((target, golden))
        ]
        for side, entry in enumerate(first):
            if entry is not None:
                whole = first[1 - side] is None and not self._has_module_near(1 - side, entry)
                flow = self._flows[side]
                first[side] = flow.enclosing(entry) if whole else flow.repeated(entry)
        return Origin(first[0], first[1], self._entry, row)

    def _has_module_near(self, side: int, entry: int) -> bool:
        """Return whether a side alone calls a module between the calls of both sides around an entry of the other one:
        a module of another name may stand for that in which the entry is."""
        alone = self._alone[0] | self._alone[1]
        first = last = entry
        while first - 1 in alone:
            first -= 1
        while last + 1 in alone:
            last += 1
        return any(
            number in self._alone[side] and is_module(self._table.keys[number]) for number in range(first, last + 1)
        )

    def _without_counterpart(self, side: int, chains: Sequence[_Chain]) -> list[int]:
        """Return the calls of a chain that return a value which no call of the other chain returns."""
        other = self._flows[1 - side]
        values = [raw for number in chains[1 - side] for raw in other.values_of(number, OUTPUT)]
        known = {number for number in chains[side] if self._flows[side].returns(number, values)}
        if not known:
            return list(chains[side])
        # What leads to a value of both sides alone needs no counterpart.
        return [number for number in self._flows[side].chain(chains[side][-1], known) if number not in known]

    def _same_operators(self, target: _Chain, golden: _Chain) -> list[tuple[int, int]]:
        from msprobe.compare.alignment.sequence_alignment import weighted_subsequence  # loaded where runs differ

        kinds = np.array([self._operator(number) for number in golden])

        def weights(i: int, start: int, stop: int) -> Any:
            return (kinds[start:stop] == self._operator(target[i])).astype(np.float64)

        return weighted_subsequence(len(target), len(golden), weights)

    def _operator(self, number: int) -> str:
        return self._table.keys[number].stem.rpartition(".")[2]


def _are_among(values: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether two calls have as many tensors, and each of the one is among those of the other."""
    return len(values) == len(others) and all(any(same_values(raw, other) for other in others) for raw in values)
