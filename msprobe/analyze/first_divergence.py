"""The first divergence: the earliest entry that is wrong by itself, and not because of what it was given.

Entries are searched in execution order. The first entry with any difference is the result when its inputs agree. Where
they differ although nothing before them does, the cause is code that leaves no record (a view, a slice, a gradient
hook). Then the innermost enclosing module whose own inputs agree is named, or the module that owns the parameter, or
none when the difference comes from outside of every recorded module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msprobe.analyze.call_order import (
    UNMADE,
    call_before,
    call_instead,
    exchanged_call,
    is_own,
    moved_call,
    other_value,
    own_flow,
    source_of_value,
)
from msprobe.analyze.causes.changed_lines import name_changed_line
from msprobe.analyze.causes.cut_gradients import CutGradients, only_use
from msprobe.analyze.causes.given_parameters import (
    changed_otherwise,
    given_parameter,
    maker_of_argument,
    parameter_name,
)
from msprobe.analyze.causes.merged_ranks import MergedRanks
from msprobe.analyze.causes.other_code import OtherCode
from msprobe.analyze.causes.unused_collectives import unused_result
from msprobe.analyze.causes.update_causes import explain_by_causes, unshown_setting
from msprobe.analyze.compared_entries import OTHER_VALUE, OWN_ARGUMENT, UNRECORDED, UNRECORDED_GRADIENT, add_figures
from msprobe.compare.after_backward.gradient_trails import module_with_wrong_gradient
from msprobe.compare.agreement import agreement_of
from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.records.call_source import call_source, in_phase, module_text
from msprobe.compare.records.entries import OPTIMIZER, EntryPair, is_module, path_of
from msprobe.compare.records.run_end import has_raised
from msprobe.compare.records.source_lines import from_source
from msprobe.compare.regions.harmless import is_other_mask
from msprobe.compare.regions.value_flow import ValueFlow
from msprobe.compare.regions.wrong_updates import WRONG_UPDATE, moved_with_others, wrong_update
from msprobe.compare.rows.summary import FirstDivergence, set_place
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import OUTPUT, is_tensor
from msprobe.numerics.verdict import Role, RowKind
from msprobe.trace.leaves import element_count, slot_of
from msprobe.trace.likeness import may_be_part, same_values

_GIVEN_OTHERWISE = (RowKind.ARGUMENT, RowKind.DTYPE, RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN)


class Divergence(NamedTuple):
    """The first divergence of one pair of dumps.

    Args:
        entry: its position in the table, by which ranks are ordered; behind the last entry where it is none of them.
        description: what is reported about it.
    """

    entry: int
    description: FirstDivergence


def first_divergence(comparison: Comparison, *, later_step: bool = False) -> Divergence | None:
    """Return the first divergence of a pair of dumps, None where they agree.

    Args:
        comparison: the compared pair.
        later_step: whether an earlier step was compared and agreed, so that a wrong parameter comes from its update.
    """
    search = _DivergenceSearch(comparison, later_step)
    if (found := search.run()) is None:
        if (setting := unshown_setting(comparison)) is not None:
            return Divergence(len(comparison.table.entries), setting)
        end = OtherCode(comparison).end()
        return None if end is None else Divergence(*end)
    entry, description = OtherCode(comparison).description_for(*found)
    if search.place_told or description is not found.description:
        name_changed_line(comparison, description)
        return Divergence(entry, description)
    source = explain_by_causes(comparison, found.entry, found.description, later_step=later_step)
    if source is not None:
        set_place(found.description, source)
    name_changed_line(comparison, found.description)
    return found


def _returns(flow: ValueFlow, entry: int, raw: Any) -> bool:
    return any(same_values(value, raw) for value in flow.values_of(entry, OUTPUT))


class _DivergenceSearch(CutGradients, MergedRanks):
    """Searches one comparison; entries and rows are numbers in its table."""

    def __init__(self, comparison: Comparison, later_step: bool) -> None:
        super().__init__(comparison)
        self._later_step = later_step
        self.place_told, self._judged = False, (comparison.measured, comparison.judged)

    def run(self) -> Divergence | None:
        """Return the first divergence, None where no entry diverges."""
        if not (diverging := self.comparison.row_levels.diverging.nonzero()[0]).size:
            return None
        merged = self._later_step and self.comparison.target.merged
        if merged and (row := wrong_update(self.table, *self._judged)) is not None:
            self.place_told, entry = True, int(self.table.entry_of_row()[row])
            return Divergence(entry, self.result(entry, row, self.module(entry), WRONG_UPDATE))
        entry = self._wrong_parameter(diverging.tolist()) or int(diverging[0])
        return Divergence(entry, self._describe(entry))

    def _wrong_parameter(self, diverging: Sequence[int]) -> int | None:
        """Return the module with the first wrong parameter of the first step, where the calls before it differ in
        nothing but shapes; None where there is none.

        Another choice of rows (experts that compute all tokens, or only theirs) says nothing about values, and no call
        makes the parameters that a run begins with.
        """
        if self._later_step or not self._differs_in_shape(diverging[0]):
            return None
        first = next((entry for entry in diverging if not self._differs_in_shape(entry)), None)
        numbers = {} if first is None else self.entry_by_name(first)
        around = [] if first is None else [first, *(numbers[name] for name in self.ancestors(first) if name in numbers)]
        wrong = (number for number in around if self.differing_rows(number, Role.PARAMETER))
        return next(wrong, None)

    def _differs_in_shape(self, entry: int) -> bool:
        """Return whether nothing but shapes of tensors differs in an entry of both sides."""
        kinds = self.comparison.judged.kind
        return all(kinds[row] == RowKind.SHAPE for row in self.differing_rows(entry))

    def _describe(self, entry: int) -> FirstDivergence:
        if (description := self._own_calls(entry)) is not None:
            return description
        if not self._updated(entry):
            entry = self._cause_inside(self._effect_in_backward(entry))
        pair = self.table.entries[entry]
        if entry in self.table.changed:
            return self._changed_recompute(entry)
        if (description := self.wrong_gradient(entry)) is not None:
            return description
        if pair.target is None or pair.golden is None:
            return self._missing(entry)
        entry = self._gradient_source(entry)
        explanations = (
            self._update,
            self._own_parameter,
            self._own_argument,
            self._unused,
            self._exchanged,
            self.cut_term,
            self._unexplained_input,
            self.cut_gradient,
            self.result_of_model,
        )
        for explain in explanations:
            description = explain(entry)
            if description is not None:
                return description
        row = self.differing_rows(entry)[0]
        inputs = [row for row in self.table.rows_of(entry) if self.comparison.measured.role[row] == Role.INPUT]
        if self.comparison.judged.by_reruns.size and (self.comparison.measured.worst[inputs] > 0.0).any():
            return self.result(entry, row, self.module(entry), "its inputs differ no more than between the reruns")
        return self.result(entry, row, self.module(entry), agreement_of(self.comparison, entry, inputs))

    def _effect_in_backward(self, entry: int) -> int:
        """Return the first wrong gradient after a call that a hand-written backward or a gradient hook made, because it
        says more than the call; any other entry stays."""
        keys = self.table.keys
        own = keys[entry].phase != "forward" or in_phase(keys[entry].name, "backward") in self.entry_by_name(entry)
        if own or self.module(entry) is not None or all(key.phase != "backward" for key in keys[:entry]):
            return entry
        backward = [
            number for number in range(len(keys)) if keys[number].phase == "backward" and self.is_module(number)
        ]
        # Only gradients of parameters follow after the last backward call of a module.
        end = next((number for number in backward if number > entry), len(keys) - 1 if backward else entry)
        for number in range(entry + 1, end + 1):
            if keys[number].phase != "forward" and self._is_wrong(number):
                return number
            if keys[number].phase == "forward" and self.is_module(number) and not keys[number].recompute:
                break
        return entry

    def _cause_inside(self, entry: int) -> int:
        """Return the first divergence inside of a backward call of a module, which may be recorded before the calls
        inside of it; any other entry stays."""
        keys, own = self.table.keys, self.name(entry)
        if keys[entry].phase != "backward" or not self.is_module(entry):
            return entry
        later = (int(number) for number in self.comparison.row_levels.diverging.nonzero()[0] if number > entry)
        inside = (number for number in later if keys[number].phase == "backward" and own in self.ancestors(number))
        return next(inside, entry)

    def _is_wrong(self, entry: int) -> bool:
        return bool(self.comparison.row_levels.diverging[entry])

    def _gradient_source(self, entry: int) -> int:
        """Return the backward entry of the module for a parameter gradient that follows from it (it may be recorded
        later); any other entry stays."""
        depends = int(self.comparison.measured.depends[entry])
        if self.table.keys[entry].phase == "parameters_grad" and depends >= 0 and self.tensor_inputs(depends):
            return depends
        return entry

    # Explanations

    def _updated(self, entry: int) -> list[int]:
        """Return the rows of parameters after a step of which each side has an own implementation."""
        return [row for row in self.table.rows_of(entry) if row in self.table.updated]

    def _update(self, entry: int) -> FirstDivergence | None:
        rows = [row for row in self.differing_rows(entry) if row in self.table.updated]
        note = "the parameter {} after the step, of which each side has an own implementation"
        return self.result(entry, rows[0], OPTIMIZER, note.format(self.table.updated[rows[0]])) if rows else None

    def _own_parameter(self, entry: int) -> FirstDivergence | None:
        rows = self.differing_rows(entry, Role.PARAMETER)
        if not rows:
            return None
        lost = [row for row in rows if self.comparison.judged.kind[row] == RowKind.NOT_UPDATED]
        if lost:
            return self.result(entry, lost[0], OPTIMIZER, "the step before agrees, so what it updated is not kept")
        name = parameter_name(self.comparison, entry, rows[0])
        if self._later_step and (note := changed_otherwise(self.comparison, entry, rows[0], name)):
            self.place_told = True
            return self.result(entry, rows[0], self.module(entry), note)
        if (description := self._update_before(entry, rows[0])) is not None:
            return description
        kept_apart = self.comparison.judged.kind[rows[0]] == RowKind.COPIES_DIFFER
        if self._later_step and (kept_apart or moved_with_others(self.table, *self._judged, rows[0])):
            return self.result(entry, rows[0], OPTIMIZER, "the step before agrees, so its weight update differs")
        return self.result(entry, rows[0], self.module(entry), "a parameter of this module")

    def _own_argument(self, entry: int) -> FirstDivergence | None:
        rows = [row for row in self.differing_rows(entry, Role.INPUT) if self.is_argument(row)]
        if not rows:
            return None
        made = maker_of_argument(self.comparison, entry, rows[0])
        note = OWN_ARGUMENT + (f"; {made.text}" if made is not None else "")
        description = self.result(entry, rows[0], self.module(entry), note)
        if made is not None:
            set_place(description, self.source(self.entry_by_name(entry)[made.call]))
        return description

    def _unused(self, entry: int) -> FirstDivergence | None:
        """Describe a collective whose result one side does not go on with."""
        found = unused_result(self.comparison, entry)
        if found is None:
            return None
        leaf = self.table.target[found.row] or self.table.golden[found.row]
        slot = "" if leaf is None else f"{slot_of(leaf)} of "
        text = f"{found.text}; then {slot}{self.table.entries[entry].sided}: {self.reason(found.row)}"
        description = self.build(found.entry, None, "value", text, self.module(found.entry))
        add_figures(description, self.comparison, found.row)
        return description

    def _exchanged(self, entry: int) -> FirstDivergence | None:
        """Describe two modules in another order, where this entry is the first of them or lies inside of it."""
        numbers = self.entry_by_name(entry)
        for number in (entry, *(numbers[name] for name in self.ancestors(entry) if name in numbers)):
            if not self.tensor_inputs(number):
                return None
            moved = exchanged_call(self.table, list(self.comparison.golden.data), number)
            if moved is not None:
                return self.build(number, None, "order", moved.text, self.module(number), moved.pair)
        return None

    def _unexplained_input(self, entry: int) -> FirstDivergence | None:
        rows = self.tensor_inputs(entry)
        if not rows:
            return None
        rows = self._without_masks(rows) or rows
        ancestors, numbers = list(self.ancestors(entry)), self.entry_by_name(entry)
        if (description := self._given_parameter(entry, rows[0])) is not None:
            return description
        enclosing: str | None = None
        call, row = entry, rows[0]
        for ancestor in ancestors:
            number = numbers.get(ancestor)
            if number is None:
                enclosing = self.module(entry)
                break
            wrong = self._without_forms(self.differing_rows(number, Role.INPUT, Role.PARAMETER))
            if not wrong:
                return self._enters_in(number, entry, call, row)
            if self.table.keys[number].phase == "forward":
                call, row = number, wrong[0]  # the call with the wrong input is made outside of this module
        if enclosing is None and self.comparison.target.merged:
            from msprobe.compare.parallel.merged_dump import ENTERS_FROM_OUTSIDE  # loaded where ranks are merged

            return self.from_outside(call, row) or self.result(call, row, self.module(call), ENTERS_FROM_OUTSIDE)
        if enclosing is None and self._begins_model(call):
            enclosing = self.module(call)  # the data that the model is given differ: no module before it had them
        description = self._gradient_after_backward(call, row)
        return description or self.result(call, row, enclosing, self._other_value(call, row))

    def _given_parameter(self, entry: int, row: int) -> FirstDivergence | None:
        """Describe a parameter that a call gets: one that a module around it has, or one that no module records."""
        numbers = self.entry_by_name(entry)
        for number in (numbers[name] for name in self.ancestors(entry) if name in numbers):
            if own := self._owned(number, row):
                return self._part_of_parameter(number, own[0], entry) or self._own_parameter(number)
        if self.comparison.target.merged or self._made(entry, row) is not None:
            return None
        given = given_parameter(self.comparison, entry, row)
        if given is None:
            return None
        note = None if not self._later_step else changed_otherwise(self.comparison, entry, row, given.name)
        self.place_told = note is not None
        note = note or OTHER_VALUE + given.note(later_step=self._later_step)
        return self.result(entry, row, self.module(entry), note)

    def _other_value(self, call: int, row: int) -> str:
        """Return in words where the wrong input of a call comes from, which is not wrong as long as it is not given."""
        unrecorded = UNRECORDED if self.table.keys[call].phase == Phase.FORWARD.value else UNRECORDED_GRADIENT
        if self.comparison.target.merged:
            return unrecorded
        text = self._made(call, row)
        if text is not None and UNMADE not in text:
            return OTHER_VALUE + text
        return (unrecorded if text is None else OTHER_VALUE + text) + self._call_before(call)

    def _made(self, call: int, row: int) -> str | None:
        """Return in words which calls make the wrong input of a call in both runs; None where none is recorded."""
        return other_value(self.table, list(self.comparison.golden.data), row, call, self._begin(call))

    def _begin(self, call: int) -> int:
        """Return the first entry inside of a call, or the call."""
        name = self.name(call)
        return next((number for number in range(call) if name in self.ancestors(number)), call)

    def _call_before(self, call: int) -> str:
        """Return in words which call of the same phase comes just before a call, where it agrees and stands in another
        line: what is wrong is made between both lines."""
        phase, around = self.table.keys[call].phase, set(self.ancestors(call))
        before = next(
            (
                number
                for number in range(self._begin(call) - 1, -1, -1)
                if self.table.keys[number].phase == phase and self.name(number) not in around
            ),
            None,
        )
        if before is None or not self.table.entries[before].of_both or self.differing_rows(before):
            return ""
        source = self.source(before).own.source
        near = source and source != self.source(call).own.source
        return f"; the call before it, {self.table.entries[before].sided}, agrees ({source})" if near else ""

    def _own_calls(self, entry: int) -> FirstDivergence | None:
        """Describe a call by the calls that each run makes alone, and of which its wrong input comes: backwards through
        what has no counterpart in the other run, or else just before it."""
        if not self.table.alone or self.comparison.target.merged or self.comparison.policy is Policy.REFERENCE:
            return None
        wrong = self.differing_rows(entry, Role.PARAMETER) or self._updated(entry)
        if wrong or not self.table.entries[entry].of_both:
            return None
        if self.table.loose and self.table.keys[entry].phase != Phase.FORWARD.value:
            return None  # what a program calls on the way of a gradient says less than the gradient
        numbers = self.entry_by_name(entry)
        for call in (entry, *(numbers[name] for name in self.ancestors(entry) if name in numbers)):
            rows = self._without_masks(self.tensor_inputs(call)) or (self._own_results(call) if call == entry else [])
            if not rows or self.comparison.judged.kind[rows[0]] == RowKind.DTYPE:
                continue  # another precision may be meant
            target, golden = (self._own_maker(side, call, rows[0]) for side in (0, 1))
            if target is None and golden is None and call == entry:
                begin = self._begin(entry) if self.tensor_inputs(entry) else entry
                target, golden = (call_before(self.table, rows[0], begin, in_golden=bool(side)) for side in (0, 1))
            if target is not None or golden is not None:
                return self._described(target, golden, call, rows[0])
        return None

    def _own_results(self, entry: int) -> list[int]:
        """Return the wrong results of a module, or of what gets nothing: other calls have made them."""
        inputs = any(self.comparison.measured.role[row] == Role.INPUT for row in self.table.rows_of(entry))
        return self.differing_rows(entry, Role.RESULT) if self.is_module(entry) or not inputs else []

    def _own_maker(self, side: int, entry: int, row: int) -> int | None:
        """Return the first call that a side alone makes of those by which a value of a call of both becomes wrong."""
        leaf, name = self.table.leaf(side, row), self.table.entries[entry][side]
        numbers, makers_of = self.table.numbers_by_name[side], self.comparison.step_end().makers_of
        made = () if leaf is None else map(numbers.__getitem__, makers_of(str(name), leaf.raw, side))
        first = next((one for one in made if is_own(self.table, one)), None)
        return None if first is None else own_flow(self.table, in_golden=bool(side)).outermost(first)

    def _update_before(self, entry: int, row: int) -> FirstDivergence | None:
        """Describe what makes a parameter wrong by the call of its update in this step: calls of optimizers may be
        excused, as each run has its own, until the parameter is used."""
        if self.comparison.target.merged:
            return None
        number = source_of_value(self.table, row, self._begin(entry), self.tensor_inputs)
        results = [] if number is None else self.differing_rows(number, Role.RESULT)
        if number is None or (self.table.entries[number].of_both and not results):
            return None
        self.place_told = True
        if not self.table.entries[number].of_both:
            return self._missing_before(number, entry, row)
        note = f"a parameter is updated here; then {self.name(entry)}: {self.reason(row)}"
        return self.result(number, results[0], self.module(number), note)

    def _missing_before(self, number: int, entry: int, row: int) -> FirstDivergence:
        """Describe a call that one run alone makes, and the value of a later call that shows it."""
        description = self._missing(number)
        description.reason += f"; then {self.name(entry)}: {self.reason(row)}"
        add_figures(description, self.comparison, row)
        leaf = self.table.target[row] or self.table.golden[row]
        if self.table.keys[entry].phase != Phase.FORWARD.value and leaf is not None and self.module(number) is None:
            # a gradient hook: what it changes says more than the call
            description.module, description.slot = self.module(entry), slot_of(leaf)
        if self.table.entries[number].target is None:
            self._set_place_in_target(description, number, entry, row)
        return description

    def _begins_model(self, entry: int) -> bool:
        """Return whether an entry is a forward call of the module that is called first, or of one around it."""
        keys = self.table.keys
        first = next((number for number, key in enumerate(keys) if key.phase == "forward" and is_module(key)), None)
        if first is None or keys[entry].phase != "forward":
            return False
        return keys[first].stem == keys[entry].stem or self.name(entry) in self.ancestors(first)

    def _gradient_after_backward(self, entry: int, row: int) -> FirstDivergence | None:
        """Describe a call after the backward passes by the gradient that is wrong there, where others are right."""
        if not any(".backward" in key.name for key in self.table.keys[:entry]):
            return None

        found = module_with_wrong_gradient(self.comparison.target, self.comparison.golden, self.name(entry))
        note = "its input differs; before this call the gradient of {0[1]} of {0[0]} became wrong"
        return None if found is None else self.result(entry, row, module_text(found[0]), note.format(found))

    def _without_masks(self, rows: list[int]) -> list[int]:
        """Return the rows that are no mask in another form: such a mask makes no other value wrong."""
        kinds = self.comparison.judged.kind
        return [row for row in rows if not is_other_mask(self.table, row, kinds[row])]

    def _without_forms(self, rows: list[int]) -> list[int]:
        """Return the rows through which another value may enter a module: no mask, and in other code no argument that
        is given otherwise, or not at all."""
        kinds = self.comparison.judged.kind
        rows = self._without_masks(rows)
        return [row for row in rows if not self.table.alone or kinds[row] not in _GIVEN_OTHERWISE]

    def _enters_in(self, enclosing: int, entry: int, call: int, row: int) -> FirstDivergence:
        """Describe an entry whose input differs, where the input of the enclosing module does not.

        Args:
            enclosing: the module.
            entry: the first entry that differs.
            call: the call made directly in the module that gets the wrong input: the entry, or a module around it.
            row: the row of that input.
        """
        module = module_text(self.name(enclosing))
        results = self.differing_rows(enclosing, Role.RESULT)
        if (description := self.from_outside(call, row)) is not None:
            return description
        if not self.is_module(entry) or not results:
            return self.result(call, row, module, self._other_value(call, row))
        if (description := self.not_added(enclosing, entry, results[0])) is not None:
            return description
        note = f"its inputs agree; the difference shows first at the input of {self.table.entries[call].sided}"
        description = self.result(enclosing, results[0], module, note)
        set_place(description, self.source(call))
        return description

    def _owned(self, number: int, row: int) -> list[int]:
        """Return the rows of a module's differing parameters of which this tensor may be a view, or else a part."""
        raw, own = self.raw(row), self.differing_rows(number, Role.PARAMETER)
        whole = [other for other in own if element_count(self.raw(other)) == element_count(raw)]
        return whole or [other for other in own if may_be_part(raw.get("shape"), self.raw(other).get("shape"))]

    def _part_of_parameter(self, number: int, row: int, entry: int) -> FirstDivergence | None:
        """Describe a parameter of which a call in its module gets a view or a part: the line is that of the call."""
        if self.raw(row).get("shape") == self.raw(self.tensor_inputs(entry)[0]).get("shape"):
            return None
        description = self.result(number, row, self.module(number), "a parameter of this module")
        set_place(description, self.source(entry))
        return description

    def _described(self, target: int | None, golden: int | None, shown: int, row: int) -> FirstDivergence:
        """Describe calls that each run makes alone by the first value of both that shows them."""
        first = golden if target is None else target
        assert first is not None
        if (moved := moved_call(self.table, first)) is not None:
            return self.build(first, None, "order", moved.text, self.module(first), moved.pair)
        if target is None or golden is None:
            return self._missing_before(first, shown, row)
        names = EntryPair(self.name(target), self.name(golden))
        text = f"the target calls {names.target} here, the golden run {names.golden}; then {self.name(shown)}: "
        description = self.build(first, None, "value", text + self.reason(row), self.calling_module(first), names)
        add_figures(description, self.comparison, row)
        return description

    def _set_place_in_target(self, description: FirstDivergence, lacking: int, shown: int, row: int) -> None:
        """Say where the target goes on where a call of the golden run is missing: the call that gets another value, or
        the one around it in the module of the missing call; of a result the outermost call that returns it to its
        module."""
        leaf, place = self.table.target[row], shown
        if leaf is not None and leaf.slot == OUTPUT and is_tensor(leaf.raw):
            flow = own_flow(self.table, in_golden=False)
            maker = flow.maker(leaf.raw, shown)
            around = range(shown - 1, -1 if maker is None else maker, -1)
            returns = next((number for number in around if _returns(flow, number, leaf.raw)), maker)
            place = place if returns is None else returns
        else:
            module = path_of(self.table.keys[lacking].parent)
            numbers = self.table.numbers_by_name[0]
            calls = [place, *(numbers[name] for name in self.ancestors(place) if name in numbers)]
            place = next((one for one in calls if path_of(self.table.keys[one].parent) == module), place)
        source = call_source(self.comparison.target, str(self.table.entries[place].target))
        description.target_source, description.target_stack = source.source, from_source(source.stack)

    def _missing(self, entry: int) -> FirstDivergence:
        moved = moved_call(self.table, entry)
        if moved is not None:
            return self.build(entry, None, "order", moved.text, self.module(entry), moved.pair)
        golden_only = self.table.entries[entry].target is None
        lost, entry = entry, only_use(self.table, entry) or entry
        if self.table.keys[entry].phase == "forward":
            entry = entry if entry != lost else self._whole_call(entry)
            module = self.calling_module(entry)
        else:
            module = self.module(entry)
        side, other = ("golden run", "target") if golden_only else ("target", "golden run")
        text = f"the {side} records {self.name(entry)}, the {other} does not{self._instead(entry, golden_only)}"
        if entry != lost:
            text += f"; {self.name(lost)} is there for its sake alone"
        dump = self.comparison.golden if golden_only else self.comparison.target
        if has_raised(dump, self.name(entry)):
            text += f"; it raised {dump.data[self.name(entry)]['error']}"
        return self.build(entry, None, "missing_in_target" if golden_only else "missing_in_golden", text, module)

    def _changed_recompute(self, entry: int) -> FirstDivergence:
        changed, golden_only = self.table.changed[entry], self.table.entries[entry].target is None
        slot, side = changed.suffix.lstrip("."), "target" if golden_only else "golden run"
        text = f"{slot} {changed.text}; the {side} recomputes nothing to compare it with"
        return self.build(entry, slot, "value", text, self.module(entry))

    def _instead(self, entry: int, golden_only: bool) -> str:
        """Return in words which call the other side has in place of this one; "" where it has none."""
        other = call_instead(self.table, entry, golden_only=golden_only)
        if other is None:
            return ""
        source = self.source(other).own.source
        differs = source and source != self.source(entry).own.source
        return f" and has {self.name(other)} there" + (f" ({source})" if differs else "")

    def _whole_call(self, entry: int) -> int:
        """Return the outermost module call that is missing as a whole and has this entry inside, or the entry."""
        numbers = self.entry_by_name(entry)
        for name in self.ancestors(entry):
            number = numbers.get(name)
            if number is None or self.table.entries[number].of_both:
                break
            entry = number
        return entry
