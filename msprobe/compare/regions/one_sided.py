"""Calls that only one side makes: they are no difference by themselves, the values that follow from them decide.

``OneSidedCalls`` divides these calls:

- A *lost result* is a divergence: the gradient of a call that both sides make, or of its parameters; the weight update
  of a step; a module or a collective whose values nothing shows that is recorded later (a whole pass more or less).
- All others are other code. Something recorded later shows their values, and agrees or differs by itself. Where nothing
  recorded later can show them, they are *not shown*: they are counted, and are no pass. The gradient of a parameter is
  shown by one of the same values that the other side alone has. What changes a tensor in place outside of all modules
  (an average of the weights) is a divergence where both sides do so, with other values.

Two different programs are judged by ``exemptions.other_programs``. Runs without
values (task ``structure``) and the policy ``reference`` take every such call for a difference.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from msprobe.compare.exemptions.protocol import ComparedDumps
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.inputs.structure import STRUCTURE
from msprobe.compare.records.call_modes import CallModes, validates
from msprobe.compare.records.entries import (
    OF_PARAMETERS,
    OPTIMIZER,
    Absence,
    EntryKey,
    entry_keys,
    is_module,
    parent_of,
    path_of,
)
from msprobe.compare.records.in_place_updates import works_in_place
from msprobe.compare.records.optimizer_steps import (
    OptimizerStep,
    number_of_steps,
    optimizer_steps,
    other_settings,
    paired_steps,
)
from msprobe.compare.regions.value_flow import ValueFlow
from msprobe.compare.regions.without_consequence import ConsequenceRules, WithoutConsequence
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.step_end import StepEnd
from msprobe.core.naming import NameSyntaxError, split_entry
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import OUTPUT, PARAMETER, Leaf
from msprobe.numerics.verdict import Ints, Judged, Measured, RowKind

_COLLECTIVES = "Distributed.", "CommunicationFunction.", "Communication."
_BySize = dict[float, list[Mapping[str, Any]]]
_MISSING = RowKind.MISSING_IN_GOLDEN, RowKind.MISSING_IN_TARGET


@dataclass(frozen=True)
class OneSidedCalls:
    """The entries of one side in a table whose exemptions have been applied.

    Args:
        table: both dumps.
        dumps: the dumps, and how they are compared.
        contradictions: the rows of tensors whose files differ while their records are equal.
    """

    table: LeafTable
    dumps: ComparedDumps
    contradictions: tuple[int, ...] = ()

    @cached_property
    def alone(self) -> frozenset[int]:
        """The entries of one side that nothing excuses yet; of two different programs also their own code."""
        if self.dumps.policy is Policy.REFERENCE or STRUCTURE in (self.dumps.target.task, self.dumps.golden.task):
            return frozenset()
        excused = (None, Absence.OTHER_PROGRAM) if self.table.loose else (None,)
        entries, changed = self.table.entries, self.table.changed
        return frozenset(
            number for number in self.table.alone if entries[number].absence in excused and number not in changed
        )

    def set_aside(self, measured: Measured) -> None:
        """Leave the values of these calls out of the judgement of others: they have nothing to be compared with."""
        if not self.table.loose:
            for rows in map(self.table.rows_of, self.alone):
                kinds = measured.kind[rows.start : rows.stop]
                kinds[kinds >= RowKind.MISSING_IN_GOLDEN] = RowKind.UNCHECKED

    def judged(self, measured: Measured, judged: Judged) -> tuple[LeafTable, StepEnd | None]:
        """Return the table in which only those of these calls are a divergence that are lost, and what leaves the step
        where it was looked for.

        The kinds of their rows, and the levels of harmless differences, are set in ``judged``.
        """
        if self.dumps.policy is Policy.REFERENCE or not self.alone:
            return self._rules.judged(measured, judged)
        excused = self._rules.lower_levels(measured, judged)
        entries = list(self.table.entries)
        for number in self.alone:
            entries[number] = entries[number]._replace(absence=self._absence(number, excused))
        self._restore((number for number in self.alone if not entries[number].benign), judged.kind)
        table = replace(self.table, entries=entries, harmless=excused.entries)
        return table, excused.differences.end

    @cached_property
    def _rules(self) -> ConsequenceRules:
        return ConsequenceRules(self.table, self.dumps, self.contradictions)

    def _absence(self, number: int, excused: WithoutConsequence) -> Absence | None:
        key = self.table.keys[number]
        if self.table.loose:
            own = self.table.entries[number].absence
            return Absence.OTHER_CODE if own is None and self._ends_with_step(key, excused) else own
        if key.phase == Phase.FORWARD.value:
            lost = self._is_lost_call(number, key)
        else:
            lost = self._is_lost_gradient(number, key) and not self._is_pair_by_chance(key, excused)
        if lost:
            return Absence.OTHER_CODE if self._ends_with_step(key, excused) else None
        if key.phase == Phase.PARAMETERS_GRAD.value:
            sinks, side = excused.differences.sinks, self.table.entries[number].target is None
            shown = sinks.agree or all(sinks.has_like_gradient(side, raw) for raw in self._tensors(number))
        else:
            shown = key.phase != Phase.FORWARD.value or number < self._last_pair
            if not shown and self._is_other_state(number, key, excused):
                return None
        return Absence.OTHER_CODE if shown else Absence.NOT_SHOWN

    def _ends_with_step(self, key: EntryKey, excused: WithoutConsequence) -> bool:
        """Return whether all that leaves the step agrees, and shows what a call makes: a parameter after the step, but
        nothing that other ranks get."""
        sinks = excused.differences.sinks
        if key.parent == OPTIMIZER:
            return sinks.agree and sinks.updates.agree
        return key.parent not in OF_PARAMETERS and not key.stem.startswith(_COLLECTIVES) and sinks.agree

    def _is_lost_gradient(self, number: int, key: EntryKey) -> bool:
        """Return whether the other side makes the call whose gradient this is, and not one of the same name; of a
        module one that has parameters, too."""
        side = self.table.entries[number].target is None
        stems, calls = self._paired_calls[side]
        if key.phase == Phase.PARAMETERS_GRAD.value:
            return key.stem in stems and key.stem in self._with_parameters[not side]
        return (key.stem, key.call) in calls

    @cached_property
    def _with_parameters(self) -> tuple[set[str], set[str]]:
        """By side the modules that have parameters of their own, by the names that the target has for them."""
        modules = [number for number, key in enumerate(self.table.keys) if is_module(key)]
        rows = [(number, row) for number in modules for row in self.table.rows_of(number)]
        target, golden = (
            {self.table.keys[number].stem for number, row in rows if _is_parameter(self.table.leaf(side, row))}
            for side in (0, 1)
        )
        return target, golden

    def _is_pair_by_chance(self, key: EntryKey, excused: WithoutConsequence) -> bool:
        """Return whether other code calls a function of one name as often by chance: gradients that leave the step show
        what is lost."""
        is_function = key.phase == Phase.BACKWARD.value and not is_module(key)
        return is_function and excused.differences.sinks.are_of_other_code

    def _is_lost_call(self, number: int, key: EntryKey) -> bool:
        """Return whether a forward call is a result by itself: a weight update, a collective or a module, of which
        nothing else is recorded."""
        side = self.table.entries[number].target is None
        if key.parent == OPTIMIZER:
            if self.table.updated:
                return self._updates_otherwise
            return not self._updates[not side] or self._updates_otherwise
        if key.stem.startswith(_COLLECTIVES):
            return number > self._last_pair
        if key.name in self._validating[side]:
            return False
        if not is_module(key) or self._is_inside(number, side) or self._modules_by_gap[not side].get(self._gap[number]):
            return False
        flow = self._flows[side]
        return not (flow.is_shown(number) or flow.passes_on(number))

    def _is_other_state(self, number: int, key: EntryKey, excused: WithoutConsequence) -> bool:
        """Return whether a call outside of modules changes a tensor in place, as that of an average does, and the other
        side calls the same function, but has this result nowhere, nor all together where parameters are fused. What has
        the shape of no parameter of its side, and of nothing that an optimizer leaves, is data of the next step."""
        states = self._state[key.stem] if not key.parent and works_in_place(key.stem) else ([], [])
        side, sinks = self.table.entries[number].target is None, excused.differences.sinks
        shapes = (str(raw.get("shape")) for raw in self._tensors(number))
        if not states[not side] or sinks.updates.shapes[side].isdisjoint(shapes):
            return False
        made = sinks.sides.leaves(side, number, OUTPUT)
        have_twins = all(math.isfinite(sinks.twins.apart(side, raw)) for _, raw in made)
        return not (have_twins or math.isfinite(sinks.twins.unions_distance(*states)))

    @cached_property
    def _state(self) -> dict[str, tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]]:
        """By function the tensors in calls of one side alone, outside of modules, that work in place; by side."""
        found: dict[str, tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]] = {}
        for number in self.alone:
            key = self.table.keys[number]
            if key.phase == Phase.FORWARD.value and not key.parent and works_in_place(key.stem):
                sides = found.setdefault(key.stem, ([], []))
                sides[self.table.entries[number].target is None].extend(self._tensors(number))
        return found

    def _tensors(self, number: int) -> Iterator[Mapping[str, Any]]:
        """Yield the tensors of an entry of one side."""
        return (raw for row in self.table.rows_of(number) for raw in self.table.tensors(row))

    def _is_inside(self, number: int, side: bool) -> bool:
        """Return whether a module of any kind encloses the call: its values are shown, or it is lost itself."""
        dump, pair = (self.dumps.golden, self.dumps.target)[not side], self.table.entries[number]
        parent = parent_of(dump.construct, pair.name)
        return parent is not None and parent in dump.data

    @cached_property
    def _updates(self) -> tuple[bool, bool]:
        """By side whether a call of an optimizer is recorded."""
        calls = [pair for pair, key in zip(self.table.entries, self.table.keys, strict=True) if key.parent == OPTIMIZER]
        return any(pair.target for pair in calls), any(pair.golden for pair in calls)

    @cached_property
    def _updates_otherwise(self) -> bool:
        """Whether optimizers make another number of steps, or one has another setting, or a parameter that the other
        side has and never updates: then calls of one side are more than another implementation, and nothing in this
        step shows their values."""
        target, golden = list(optimizer_steps(self.dumps.target)), list(optimizer_steps(self.dumps.golden))
        if self._leave_out_parameters(target, golden):
            return True
        numbers = {number_of_steps(steps) for steps in (target, golden) if steps}
        pairs = paired_steps(target, golden)
        return len(numbers) > 1 or any(
            ours.kind == theirs.kind and any(other_settings(ours, theirs)) for ours, theirs in pairs
        )

    def _leave_out_parameters(self, *sides: Sequence[OptimizerStep]) -> bool:
        """Return whether a module of one side has a parameter that the optimizers of the other side alone have."""
        names = [{name for step in steps for name in step.parameters if name} for steps in sides]
        if not all(names) or names[0] == names[1]:
            return False
        return any(
            f"{path_of(key.stem)}.{leaf.suffix.rpartition('.')[2]}" in names[1 - side] - names[side]
            for number, key in enumerate(self.table.keys)
            if is_module(key) and key.phase == Phase.FORWARD.value
            for row in self.table.rows_of(number)
            for side, leaf in enumerate((self.table.target[row], self.table.golden[row]))
            if leaf is not None and leaf.slot == PARAMETER
        )

    @cached_property
    def _validating(self) -> tuple[frozenset[str], frozenset[str]]:
        """By side the calls of modules in passes of evaluation that the other side does not make."""
        dumps = self.dumps.target, self.dumps.golden
        keys = [entry_keys(dump.data, dump.construct) for dump in dumps]
        modes = [CallModes(own, dump.data, dump.construct) for own, dump in zip(keys, dumps, strict=True)]
        return validates(keys[0], modes[0], modes[1]), validates(keys[1], modes[1], modes[0])

    @cached_property
    def _gap(self) -> list[int]:
        """By entry the number of calls of both sides before it."""
        paired = [pair.of_both for pair in self.table.entries]
        return np.cumsum(paired).tolist()  # type: ignore[no-any-return]

    @cached_property
    def _modules_by_gap(self) -> tuple[Counter[int], Counter[int]]:
        """By side how many modules it alone calls, by the gap between calls of both sides."""
        modules: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        for number in self.alone:
            if is_module(self.table.keys[number]) and self.table.keys[number].phase == Phase.FORWARD.value:
                modules[self.table.entries[number].target is None][self._gap[number]] += 1
        return modules

    @cached_property
    def _flows(self) -> tuple[ValueFlow, ValueFlow]:
        """The values of all calls by side."""
        sides = [{number for number in self.alone if self.table.entries[number][side] is not None} for side in (0, 1)]
        target, golden = (ValueFlow(self.table, in_golden=bool(side), alone=sides[side]) for side in (0, 1))
        return target, golden

    @cached_property
    def _last_pair(self) -> int:
        pairs = (number for number, pair in enumerate(self.table.entries) if pair.of_both)
        return max(pairs, default=-1)

    @cached_property
    def _paired_calls(self) -> tuple[tuple[set[str], set[tuple[str, int | None]]], ...]:
        """By side the forward calls that both sides make: their names without number, and with it."""
        sides: tuple[tuple[set[str], set[tuple[str, int | None]]], ...] = ((set(), set()), (set(), set()))
        for pair, key in zip(self.table.entries, self.table.keys, strict=True):
            if key.phase == Phase.FORWARD.value and pair.of_both:
                for (stems, calls), name in zip(sides, pair[:2], strict=True):
                    stem, call = _call(name)
                    stems.add(stem)
                    calls.add((stem, call))
        return sides

    def _restore(self, entries: Iterable[int], kinds: Ints) -> None:
        """Say again of the rows of these entries that the other side lacks them."""
        for number in entries:
            rows = self.table.rows_of(number)
            missing = _MISSING[self.table.entries[number].target is None]
            kinds[rows.start : rows.stop] = missing


def _is_parameter(leaf: Leaf | None) -> bool:
    return leaf is not None and leaf.slot == PARAMETER


def _call(name: str | None) -> tuple[str, int | None]:
    """Return the name of a call without number, and its number."""
    try:
        stem, _, call = split_entry(name or "")
    except NameSyntaxError:
        return name or "", None
    return stem, call
