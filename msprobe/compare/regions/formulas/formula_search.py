"""Follows the values of formulas that are written otherwise, from call to call, until both sides agree again.

A formula begins with a pair of calls of one name that get other values, and with the calls of one side that make them.
Nothing records where a tensor goes, so values are found again by their statistics (``value_flow.signature_of``), on
each side for itself. ``other_formulas`` says which formulas are without consequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import OF_PARAMETERS, is_module, phases_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.numerics.verdict import Judged, Measured, Role, RowKind
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import same_values
from msprobe.trace.values import signature_of

_EQUAL = 2e-5
"""How far results of two formulas may be apart in float32, relative to their scale."""
MUCH_CLOSER = 0.1
"""How far values that leave a formula may be apart, relative to the difference inside."""
_NEAR_CALLS, _MOST_LOOKUPS = 256, 16
"""How many entries before a call its operands are looked for, and how often."""
_Raw = Mapping[str, Any]


class _Value(NamedTuple):
    """A value of one side: what is equal wherever this side has it."""

    side: int
    signature: Any


@dataclass(eq=False)
class Formula:
    """Calls that pass values to each other which the other side has not there.

    Attributes:
        first: the first entry.
        pairs: the entries of both sides that differ.
        inside: the largest difference in it, relative to the scale of a tensor.
        size: the same in units of the data.
        leaving: the largest difference of what both sides have again, relative to the scale of a tensor.
        unused: the values that no later call has got.
    """

    first: int
    pairs: set[int] = field(default_factory=set)
    inside: float = 0.0
    size: float = 0.0
    leaving: float = 0.0
    unused: dict[_Value, _Raw] = field(default_factory=dict)


class FormulaSearch:
    """Follows the values of formulas through the entries of one pass.

    Args:
        table: both dumps.
        measured: the differences of all rows, with their roles.
        judged: the verdicts of all rows.
        alone: the entries of one side that nothing excuses.
        differing: the entries of both sides that differ with consequence, as far as is known yet.
        forward: the pairs of formulas of the forward pass, where gradients are followed; None for the forward pass.
    """

    def __init__(
        self,
        table: LeafTable,
        measured: Measured,
        judged: Judged,
        alone: Set[int],
        differing: Set[int],
        forward: Set[int] | None = None,
    ) -> None:
        self._table, self._role, self._kind = table, measured.role, judged.kind
        self._worst, self._tolerance = measured.worst, judged.tolerance
        self._alone, self._differing, self._forward = alone, differing, forward
        self._live: dict[_Value, Formula] = {}
        self._made_alone: set[_Value] = set()
        self._made: tuple[dict[float, list[_Raw]], ...] = ({}, {})
        self._formulas: list[Formula] = []
        self._taken_over: set[int] = set()
        self._lookups = 0
        self._ended = False

    def run(self) -> list[Formula]:
        """Return the formulas of which no wrong value goes on; some of their values may go nowhere.

        None begins after the first pair that differs and is no part of one: what differs there may follow from it.
        """
        phases = phases_of(backward=self._forward is not None)
        for number, key in enumerate(self._table.keys):
            if self._ended and not self._formulas:
                break
            if key.phase not in phases or key.parent in OF_PARAMETERS or key.recompute:
                continue
            if number in self._alone:
                self._follow_alone(number)
            elif number in self._differing or (self._live and self._takes_over(number)):
                self._follow_wrong(number)
            elif self._live and self._table.entries[number].of_both:
                self._follow_right(number)
        return [formula for formula in self._formulas if formula.pairs]

    def is_made_otherwise(self, formula: Formula) -> bool:
        """Return whether the other side makes each value too that goes nowhere."""
        return all(
            any(same_values(raw, other, _EQUAL) for other in self._made[1 - value.side].get(element_count(raw), ()))
            for value, raw in formula.unused.items()
        )

    # One entry

    def _follow_alone(self, number: int) -> None:
        """Add a call of one side to the formulas whose values it gets."""
        side = int(self._table.entries[number].target is None)
        formula = self._joined(self._use(number, (INPUT,)))
        for _, raw in self._table.values(side, number, OUTPUT):
            self._add_made(side, raw)
            value = _value(side, raw)
            self._made_alone.add(value)
            if formula is not None:
                self._pass_on(formula, value, raw)

    def _follow_wrong(self, number: int) -> None:
        """Add a pair that differs to the formulas whose values it gets, or give them up where it is no part of one."""
        for side in (0, 1):
            for _, raw in self._table.values(side, number, OUTPUT):
                self._add_made(side, raw)
        if self._ended and not self._has_live_value(number):
            return
        belongs = self._may_belong(number)
        formula = self._joined(self._use(number, (INPUT,) if belongs else (INPUT, OUTPUT)))
        if not belongs:
            self._give_up(formula)
            self._ended = True
            return
        if formula is None:
            formula = Formula(number)
            self._formulas.append(formula)
        self._add_pair(formula, number)

    def _add_pair(self, formula: Formula, number: int) -> None:
        """Add a pair to a formula, with the values that it passes on, and what of it agrees."""
        formula.pairs.add(number)
        rows = self._table.rows_of(number)
        for row in filter(self._differs, rows):
            self._enlarge(formula, row)
            if self._role[row] == Role.RESULT:
                for side, raw in self._tensors(row):
                    self._pass_on(formula, _value(side, raw), raw)
        for row in rows:
            if self._role[row] == Role.RESULT and not self._differs(row):
                self._leave(formula, row)

    def _takes_over(self, number: int) -> bool:
        """Return whether a function of both sides gets values of a formula that differ, and passes because the calls
        before explain that; then its rows count as differing."""
        if is_module(self._table.keys[number]) or not self._table.entries[number].of_both:
            return False
        rows = self._table.rows_of(number)
        used = [self._live.get(_value(side, raw)) for row in rows for side, raw in self._tensors(row)]
        inside = min((formula.inside for formula in used if formula is not None), default=math.inf)
        wrong = [row for row in rows if self._worst[row] > MUCH_CLOSER * inside]
        self._taken_over.update(wrong)
        return any(self._role[row] == Role.INPUT for row in wrong)

    def _follow_right(self, number: int) -> None:
        """Take note of what a call of both sides gets from formulas, and of what a module returns."""
        returned = is_module(self._table.keys[number]) or self._forward is not None
        for row in self._table.rows_of(number):
            if self._role[row] == Role.RESULT and not returned:
                continue
            for side, raw in self._tensors(row):
                value = _value(side, raw)
                formula = self._live.get(value)
                if formula is None:
                    continue
                formula.unused.pop(value, None)
                self._leave(formula, row)

    # What belongs to a formula

    def _may_belong(self, number: int) -> bool:
        """Return whether a pair that differs may have nothing but its name in common. What a call writes that returns
        no tensor, nothing shows."""
        key, rows = self._table.keys[number], self._table.rows_of(number)
        if is_module(key) or key.phase == Phase.PARAMETERS_GRAD.value:
            return False
        results = (row for row in rows if self._role[row] == Role.RESULT)
        if self._forward is None and not any(True for row in results for _ in self._tensors(row)):
            return False
        differing = [row for row in rows if self._differs(row)]
        if any(self._kind[row] == RowKind.NON_FINITE for row in differing):
            return False
        if self._forward is not None and self._forward_call(number) in self._forward:
            return True
        inputs = [row for row in differing if self._role[row] == Role.INPUT]
        of_tensors = [row for row in inputs if any(True for _ in self._tensors(row))]
        if not of_tensors:
            return bool(inputs) and any(self._role[row] == Role.RESULT for row in differing)
        return all(self._is_explained(number, row) for row in of_tensors)

    def _forward_call(self, number: int) -> int | None:
        pair = self._table.entries[number]
        return self._table.numbers_by_name[0].get(in_phase(pair.target or "", Phase.FORWARD.value))

    def _is_explained(self, number: int, row: int) -> bool:
        """Return whether code that differs makes what a call gets: calls of one side, other calls of the formula, or
        another order in which it uses what both sides have."""
        tensors = list(self._tensors(row))
        values = [_value(side, raw) for side, raw in tensors]
        if any(value in self._live or value in self._made_alone for value in values):
            return True
        return self._forward is None and all(self._is_known(number, side, raw) for side, raw in tensors)

    def _is_known(self, number: int, side: int, raw: _Raw) -> bool:
        """Return whether a call of both sides that agrees has a value, shortly before an entry."""
        self._lookups += 1
        if self._lookups > _MOST_LOOKUPS:
            return False
        first, end = (int(self._table.starts[entry]) for entry in (max(number - _NEAR_CALLS, 0), number))
        key, value = ("md5" if raw.get("md5") is not None else LARGEST.name), _value(side, raw)
        found = raw.get(key)
        for row, leaf in enumerate((self._table.target, self._table.golden)[side][first:end], first):
            if leaf is None or not is_tensor(leaf.raw) or leaf.raw.get(key) != found or self._differs(row):
                continue
            (entry,) = self._table.entries_of([row])
            agrees = entry not in self._differing and self._table.entries[entry].of_both
            if agrees and _value(side, leaf.raw) == value:
                return True
        return False

    # Formulas and their values

    def _enlarge(self, formula: Formula, row: int) -> None:
        """Take note of how much a row differs inside of a formula."""
        sizes = [_largest(raw) for _, raw in self._tensors(row)]
        if not sizes:
            return
        is_number = self._kind[row] == RowKind.VALUE or row in self._taken_over
        apart = float(self._worst[row]) if is_number else math.inf
        formula.inside = max(formula.inside, apart)
        formula.size = max(formula.size, max(sizes) * min(apart, 1.0))

    def _leave(self, formula: Formula, row: int) -> None:
        """Take note of a row that agrees, and give a formula up whose differences would not show there: beside a mask
        of -1e9, scores do not."""
        formula.leaving = max(formula.leaving, float(self._worst[row]))
        hidden = 0.0
        if not self._table.checksums:
            hidden = max((_largest(raw) for _, raw in self._tensors(row)), default=0.0) * float(self._tolerance[row])
        if self._kind[row] == RowKind.UNCHECKED or not hidden <= formula.size:
            self._give_up(formula)

    def _use(self, number: int, slots: tuple[str, ...]) -> list[Formula]:
        """Return the formulas of which an entry has values in these slots, and note that these are used."""
        found = []
        for side in (0, 1):
            for _, raw in self._table.values(side, number, *slots):
                value = _value(side, raw)
                if value in self._live:
                    found.append(self._live[value])
                    found[-1].unused.pop(value, None)
        return found

    def _has_live_value(self, number: int) -> bool:
        """Return whether an entry gets or returns a value of a formula."""
        values = (_value(side, raw) for side in (0, 1) for _, raw in self._table.values(side, number, INPUT, OUTPUT))
        return any(value in self._live for value in values)

    def _joined(self, formulas: Iterable[Formula]) -> Formula | None:
        """Return one formula made of several; None where there are none."""
        first, *others = dict.fromkeys(formulas) or [None]
        if first is not None:
            for other in others:
                if other is not None:
                    self._merge(first, other)
        return first

    def _merge(self, formula: Formula, other: Formula) -> None:
        formula.first = min(formula.first, other.first)
        formula.pairs |= other.pairs
        formula.inside, formula.size = max(formula.inside, other.inside), max(formula.size, other.size)
        formula.leaving = max(formula.leaving, other.leaving)
        formula.unused |= other.unused
        self._formulas.remove(other)
        for value in [value for value, owner in self._live.items() if owner is other]:
            self._live[value] = formula

    def _give_up(self, formula: Formula | None) -> None:
        """Forget a formula: something wrong goes on from it."""
        if formula is not None and formula in self._formulas:
            self._formulas.remove(formula)
            self._live = {value: owner for value, owner in self._live.items() if owner is not formula}

    def _pass_on(self, formula: Formula, value: _Value, raw: _Raw) -> None:
        """Note that a formula makes a value."""
        other = self._live.get(value)
        if other is not None and other is not formula:
            self._merge(formula, other)
        self._live[value] = formula
        formula.unused[value] = raw

    def _add_made(self, side: int, raw: _Raw) -> None:
        self._made[side].setdefault(element_count(raw), []).append(raw)

    # Rows

    def _differs(self, row: int) -> bool:
        return bool(self._kind[row] > RowKind.UNCHECKED) or row in self._taken_over

    def _leaves(self, row: int) -> tuple[Leaf | None, Leaf | None]:
        return self._table.target[row], self._table.golden[row]

    def _tensors(self, row: int) -> Iterator[tuple[int, _Raw]]:
        """Yield the tensors in a row with their sides."""
        for side, leaf in enumerate(self._leaves(row)):
            if leaf is not None and is_tensor(leaf.raw):
                yield side, leaf.raw


def _largest(raw: _Raw) -> float:
    """Return the largest element of a tensor in units of the data; infinity where it is not known to be finite."""
    extremes = [abs(as_float(raw.get(spec.name))) for spec in (LARGEST, SMALLEST)]
    return max(extremes) if all(map(math.isfinite, extremes)) else math.inf


def _value(side: int, raw: _Raw) -> _Value:
    """Return a value of one side; one full of ones or zeros, which says nothing about where it comes from, is equal to
    itself alone."""
    signature = signature_of(raw)
    return _Value(side, id(raw) if signature is None else signature)
