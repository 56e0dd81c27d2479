"""The first divergence: the earliest entry that is wrong by itself, and not because of what it was given.

Entries are searched in execution order. The first entry with any difference is the result when its inputs agree. Where
they differ although nothing before them does, the cause is code that leaves no record (a view, a slice, a gradient
hook). Then the innermost enclosing module whose own inputs agree is named, or the module that owns the parameter, or
none when the difference comes from outside of every recorded module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from msprobe.analyze.call_order import call_instead, exchanged_call, moved_call
from msprobe.analyze.unused_collectives import unused_result
from msprobe.analyze.update_causes import explain_by_causes, unshown_setting
from msprobe.compare.agreement import agreement_of
from msprobe.compare.comparison import Comparison
from msprobe.compare.parallel.merged_dump import ENTERS_FROM_OUTSIDE, MergedDump, suspect_of
from msprobe.compare.records.call_source import (
    PairSource,
    in_phase,
    module_text,
    of_stack,
    parent_in_phase,
    source_of_pair,
)
from msprobe.compare.records.entries import OPTIMIZER, EntryPair
from msprobe.compare.records.leaves import slot_of
from msprobe.compare.records.likeness import may_be_part
from msprobe.compare.records.run_end import has_raised
from msprobe.compare.regions.cut_gradients import cutting_call, only_use, side_without_gradient
from msprobe.compare.regions.wrong_updates import WRONG_UPDATE, moved_with_others, wrong_update
from msprobe.compare.rows.explanations import Reasons
from msprobe.compare.rows.summary import FirstDivergence, KindText, set_place
from msprobe.compare.table.table import Origin
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.record_walk import is_tensor
from msprobe.numerics.verdict import Role, RowKind

UNEXPLAINED = "its input differs; what makes it leaves no record (a view, a slice, numbers of Python)"


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
        setting = unshown_setting(comparison)
        return None if setting is None else Divergence(len(comparison.table.entries), setting)
    if search.place_told:
        return found
    source = explain_by_causes(comparison, found.entry, found.description, later_step=later_step)
    if source is not None:
        set_place(found.description, source)
    return found


class _DivergenceSearch:
    """Searches one comparison; entries and rows are numbers in its table."""

    def __init__(self, comparison: Comparison, later_step: bool) -> None:
        self._comparison = comparison
        self._table = comparison.table
        self._later_step = later_step
        self._differs = comparison.judged.kind > RowKind.UNCHECKED
        self.place_told, self._judged = False, (comparison.measured, comparison.judged)

    def run(self) -> Divergence | None:
        """Return the first divergence, None where no entry diverges."""
        if not (diverging := self._comparison.row_levels.diverging.nonzero()[0]).size:
            return None
        merged = self._later_step and isinstance(self._comparison.target, MergedDump)
        if merged and (row := wrong_update(self._table, *self._judged)) is not None:
            self.place_told, entry = True, int(self._table.entry_of_row()[row])
            return Divergence(entry, self._result(entry, row, self._module(entry), WRONG_UPDATE))
        entry, origin = int(diverging[0]), self._table.origin
        if origin is not None and origin.boundary == entry:
            entry = origin.entry
        return Divergence(entry, self._describe(entry))

    def _describe(self, entry: int) -> FirstDivergence:
        if self._table.origin is not None and self._table.origin.entry == entry:
            return self._origin(self._table.origin)
        if not self._updated(entry):
            entry = self._effect_in_backward(entry)
        pair = self._table.entries[entry]
        if entry in self._table.changed:
            return self._changed_recompute(entry)
        if pair.target is None or pair.golden is None:
            return self._missing(entry)
        entry = self._gradient_source(entry)
        explanations = (
            self._update,
            self._own_parameter,
            self._own_argument,
            self._unused,
            self._exchanged,
            self._unexplained_input,
        )
        for explain in explanations:
            description = explain(entry)
            if description is not None:
                return description
        cut = self._cut_gradient(entry)
        if cut is not None:
            return cut
        row = self._differing_rows(entry)[0]
        inputs = [row for row in self._table.rows_of(entry) if self._comparison.measured.role[row] == Role.INPUT]
        if self._comparison.judged.by_reruns.size and (self._comparison.measured.worst[inputs] > 0.0).any():
            return self._result(entry, row, self._module(entry), "its inputs differ no more than between the reruns")
        return self._result(entry, row, self._module(entry), agreement_of(self._comparison, entry, inputs))

    def _effect_in_backward(self, entry: int) -> int:
        """Return the first wrong gradient after a call that a hand-written backward or a gradient hook made, because it
        says more than the call; any other entry stays."""
        keys = self._table.keys
        own = keys[entry].phase != "forward" or in_phase(keys[entry].name, "backward") in self._entry_by_name(entry)
        if own or self._module(entry) is not None or all(key.phase != "backward" for key in keys[:entry]):
            return entry
        backward = [
            number for number in range(len(keys)) if keys[number].phase == "backward" and self._is_module(number)
        ]
        # Only gradients of parameters follow after the last backward call of a module.
        end = next((number for number in backward if number > entry), len(keys) - 1 if backward else entry)
        for number in range(entry + 1, end + 1):
            if keys[number].phase != "forward" and self._is_wrong(number):
                return number
            if keys[number].phase == "forward" and self._is_module(number) and not keys[number].recompute:
                break
        return entry

    def _is_wrong(self, entry: int) -> bool:
        return bool(self._comparison.row_levels.diverging[entry])

    def _is_one_sided(self, entry: int) -> bool:
        pair = self._table.entries[entry]
        return (pair.target is None or pair.golden is None) and not pair.benign

    # Rows of an entry

    def _differing_rows(self, entry: int, *roles: Role) -> list[int]:
        """Return the rows of an entry that differ, of these roles or of all."""
        start, end = int(self._table.starts[entry]), int(self._table.starts[entry + 1])
        role = self._comparison.measured.role
        differing = self._differs[start:end].nonzero()[0] + start
        return [int(row) for row in differing if not roles or role[row] in roles]

    def _raw(self, row: int) -> dict[str, Any]:
        """Return what the golden run records of a tensor; an empty dict for anything else."""
        leaf = self._table.golden[row]
        return leaf.raw if leaf is not None and isinstance(leaf.raw, dict) else {}

    def _tensor_inputs(self, entry: int) -> list[int]:
        return [row for row in self._differing_rows(entry, Role.INPUT) if not self._is_argument(row)]

    def _gradient_source(self, entry: int) -> int:
        """Return the backward entry of the module for a parameter gradient that follows from it (it may be recorded
        later); any other entry stays."""
        depends = int(self._comparison.measured.depends[entry])
        if self._table.keys[entry].phase == "parameters_grad" and depends >= 0 and self._tensor_inputs(depends):
            return depends
        return entry

    # Explanations

    def _updated(self, entry: int) -> list[int]:
        """Return the rows of parameters after a step of which each side has an own implementation."""
        return [row for row in self._table.rows_of(entry) if row in self._table.updated]

    def _update(self, entry: int) -> FirstDivergence | None:
        rows = [row for row in self._differing_rows(entry) if row in self._table.updated]
        note = "the parameter {} after the step, of which each side has an own implementation"
        return self._result(entry, rows[0], OPTIMIZER, note.format(self._table.updated[rows[0]])) if rows else None

    def _own_parameter(self, entry: int) -> FirstDivergence | None:
        rows = self._differing_rows(entry, Role.PARAMETER)
        if not rows:
            return None
        if self._later_step and moved_with_others(self._table, *self._judged, rows[0]):
            return self._result(entry, rows[0], OPTIMIZER, "the step before agrees, so its weight update differs")
        return self._result(entry, rows[0], self._module(entry), "a parameter of this module")

    def _cut_gradient(self, entry: int) -> FirstDivergence | None:
        """Describe a gradient that is null on one side by the call where it is cut off."""
        rows = self._differing_rows(entry, Role.RESULT)
        side = side_without_gradient(self._table, self._comparison.judged, entry, rows)
        if not side:
            return None
        call = cutting_call(self._table, self._comparison.measured.role, self._comparison.target.construct, entry)
        if call is None:
            return None
        note = f"what {self._table.entries[call].sided} gets does not require a gradient in the {side}"
        around = next(self._ancestors(call), None)
        description = self._result(entry, rows[0], around and module_text(around), note)
        set_place(description, self._source(call))
        return description

    def _own_argument(self, entry: int) -> FirstDivergence | None:
        rows = [row for row in self._differing_rows(entry, Role.INPUT) if self._is_argument(row)]
        return self._result(entry, rows[0], self._module(entry), "an argument of this call") if rows else None

    def _is_argument(self, row: int) -> bool:
        """Return whether a differing row is an argument that is no tensor, given by both sides or by one."""
        kind = self._comparison.judged.kind[row]
        if kind not in (RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN):
            return bool(kind == RowKind.ARGUMENT)
        leaf = self._table.target[row] or self._table.golden[row]
        return leaf is not None and not is_tensor(leaf.raw)

    def _unused(self, entry: int) -> FirstDivergence | None:
        """Describe a collective whose result one side does not go on with."""
        found = unused_result(self._comparison, entry)
        if found is None:
            return None
        leaf = self._table.target[found.row] or self._table.golden[found.row]
        slot = "" if leaf is None else f"{slot_of(leaf)} of "
        text = f"{found.text}; then {slot}{self._name(entry)}: {self._reason(found.row)}"
        description = self._build(found.entry, None, "value", text, self._module(found.entry))
        _add_figures(description, self._comparison, found.row)
        return description

    def _exchanged(self, entry: int) -> FirstDivergence | None:
        """Describe two modules in another order, where this entry is the first of them or lies inside of it."""
        numbers = self._entry_by_name(entry)
        for number in (entry, *(numbers[name] for name in self._ancestors(entry) if name in numbers)):
            if not self._tensor_inputs(number):
                return None
            moved = exchanged_call(self._table, list(self._comparison.golden.data), number)
            if moved is not None:
                return self._build(number, None, "order", moved.text, self._module(number), moved.pair)
        return None

    def _unexplained_input(self, entry: int) -> FirstDivergence | None:
        rows = self._tensor_inputs(entry)
        if not rows:
            return None
        ancestors, numbers = list(self._ancestors(entry)), self._entry_by_name(entry)
        for ancestor in ancestors:
            number = numbers.get(ancestor)
            own = [] if number is None else self._owned(number, rows[0])
            if number is not None and own:
                return self._part_of_parameter(number, own[0], entry) or self._own_parameter(number)
        enclosing: str | None = None
        call, row = entry, rows[0]
        for ancestor in ancestors:
            number = numbers.get(ancestor)
            if number is None:
                enclosing = self._module(entry)
                break
            wrong = self._differing_rows(number, Role.INPUT, Role.PARAMETER)
            if not wrong:
                return self._enters_in(number, entry, call, row)
            if self._table.keys[number].phase == "forward":
                call, row = number, wrong[0]  # the call with the wrong input is made outside of this module
        if enclosing is None and isinstance(self._comparison.target, MergedDump):
            return self._from_outside(call, row) or self._result(call, row, self._module(call), ENTERS_FROM_OUTSIDE)
        return self._result(call, row, enclosing, UNEXPLAINED)

    def _from_outside(self, entry: int, row: int) -> FirstDivergence | None:
        """Describe a call by the function outside of the modules of merged ranks that makes its wrong input."""
        if (found := suspect_of(self._comparison.target, self._table.entries[entry].target)) is None:
            return None
        description = self._result(entry, row, self._module(entry), f"its input differs; {found.reason}")
        set_place(description, PairSource(of_stack(found.stack), None))
        self.place_told = True
        return description

    def _enters_in(self, enclosing: int, entry: int, call: int, row: int) -> FirstDivergence:
        """Describe an entry whose input differs, where the input of the enclosing module does not.

        Args:
            enclosing: the module.
            entry: the first entry that differs.
            call: the call made directly in the module that gets the wrong input: the entry, or a module around it.
            row: the row of that input.
        """
        module = module_text(self._name(enclosing))
        results = self._differing_rows(enclosing, Role.RESULT)
        if (description := self._from_outside(call, row)) is not None:
            return description
        if not self._is_module(entry) or not results:
            return self._result(call, row, module, UNEXPLAINED)
        note = f"its inputs agree; the difference shows first at the input of {self._table.entries[call].sided}"
        description = self._result(enclosing, results[0], module, note)
        set_place(description, self._source(call))
        return description

    def _owned(self, number: int, row: int) -> list[int]:
        """Return the rows of a module's differing parameters of this tensor's shape, or of which it may be a part."""
        shape, own = self._raw(row).get("shape"), self._differing_rows(number, Role.PARAMETER)
        whole = [other for other in own if self._raw(other).get("shape") == shape]
        return whole or [other for other in own if may_be_part(shape, self._raw(other).get("shape"))]

    def _part_of_parameter(self, number: int, row: int, entry: int) -> FirstDivergence | None:
        """Describe a parameter of which a call in its module gets a part: the line is that of the call."""
        if self._raw(row).get("shape") == self._raw(self._tensor_inputs(entry)[0]).get("shape"):
            return None
        description = self._result(number, row, self._module(number), "a parameter of this module")
        set_place(description, self._source(entry))
        return description

    def _origin(self, origin: Origin) -> FirstDivergence:
        """Describe calls of one side in which a difference arises, by the first value of both sides that shows it."""
        moved = moved_call(self._table, origin.entry)
        if moved is not None:
            return self._build(origin.entry, None, "order", moved.text, self._module(origin.entry), moved.pair)
        leaf = self._table.target[origin.row] or self._table.golden[origin.row]
        slot = "" if leaf is None else f"{slot_of(leaf)} of "
        shown = f"{slot}{self._name(origin.boundary)}: {self._reason(origin.row)}"
        names = [None if entry is None else self._name(entry) for entry in (origin.target, origin.golden)]
        target, golden = names
        if target is not None and golden is not None:
            kind: KindText = "value"
            text = f"the target calls {target} here, the golden run {golden}; then {shown}"
        else:
            kind = "missing_in_target" if target is None else "missing_in_golden"
            side, other = ("golden run", "target") if target is None else ("target", "golden run")
            instead = self._instead(origin.entry, golden_only=target is None)
            text = f"the {side} records {target or golden}, the {other} does not{instead}; then {shown}"
        module = self._module(origin.entry)
        in_backward = self._table.keys[origin.boundary].phase != "forward"
        if module is None and in_backward:  # a gradient hook: what it changes says more than the call
            module = self._module(origin.boundary)
        description = self._build(origin.entry, None, kind, text, module, EntryPair(target, golden))
        if module is not None and in_backward and leaf is not None and self._module(origin.entry) is None:
            description.slot = slot_of(leaf)
        _add_figures(description, self._comparison, origin.row)
        return description

    def _missing(self, entry: int) -> FirstDivergence:
        moved = moved_call(self._table, entry)
        if moved is not None:
            return self._build(entry, None, "order", moved.text, self._module(entry), moved.pair)
        golden_only = self._table.entries[entry].target is None
        lost, entry = entry, only_use(self._table, entry) or entry
        if self._table.keys[entry].phase == "forward":
            entry, module = (entry, self._module(entry)) if entry != lost else self._whole_call(entry)
        else:
            module = self._where_gradient_ends(entry) if golden_only else self._module(entry)
        side, other = ("golden run", "target") if golden_only else ("target", "golden run")
        text = f"the {side} records {self._name(entry)}, the {other} does not{self._instead(entry, golden_only)}"
        if entry != lost:
            text += f"; {self._name(lost)} is there for its sake alone"
        dump = self._comparison.golden if golden_only else self._comparison.target
        if has_raised(dump, self._name(entry)):
            text += f"; it raised {dump.data[self._name(entry)]['error']}"
        return self._build(entry, None, "missing_in_target" if golden_only else "missing_in_golden", text, module)

    def _changed_recompute(self, entry: int) -> FirstDivergence:
        changed, golden_only = self._table.changed[entry], self._table.entries[entry].target is None
        slot, side = changed.suffix.lstrip("."), "target" if golden_only else "golden run"
        text = f"{slot} {changed.text}; the {side} recomputes nothing to compare it with"
        return self._build(entry, slot, "value", text, self._module(entry))

    def _instead(self, entry: int, golden_only: bool) -> str:
        """Return in words which call the other side has in place of this one; "" where it has none."""
        other = call_instead(self._table, entry, golden_only=golden_only)
        if other is None:
            return ""
        source = self._source(other).own.source
        differs = source and source != self._source(entry).own.source
        return f" and has {self._name(other)} there" + (f" ({source})" if differs else "")

    def _whole_call(self, entry: int) -> tuple[int, str | None]:
        """Return the outermost module call that is missing as a whole and has this entry inside, or the entry; and its
        module."""
        numbers = self._entry_by_name(entry)
        for name in self._ancestors(entry):
            number = numbers.get(name)
            if number is None or not self._is_one_sided(number):
                break
            entry = number
        return entry, self._module(entry)

    def _where_gradient_ends(self, entry: int) -> str | None:
        """Return the innermost module around a missing gradient that has a gradient itself, or whose result requires
        none."""
        enclosing = list(self._ancestors(entry))
        if self._is_module(entry):
            enclosing.insert(0, in_phase(self._name(entry), "backward"))
        numbers = self._entry_by_name(entry)
        for name in enclosing:
            number = numbers.get(name)
            if number is None or not self._is_one_sided(number) or not self._requires_gradient(number):
                return module_text(name)
        return None

    def _requires_gradient(self, backward: int) -> bool:
        forward = self._entry_by_name(backward).get(in_phase(self._name(backward), "forward"))
        if forward is None:
            return True
        rows = slice(int(self._table.starts[forward]), int(self._table.starts[forward + 1]))
        outputs = [leaf.raw for leaf in self._table.target[rows] if leaf is not None and leaf.slot == "output"]
        return any(isinstance(raw, dict) and raw.get("requires_grad") for raw in outputs)

    # Names and modules

    def _name(self, entry: int) -> str:
        return self._table.entries[entry].name

    def _is_module(self, entry: int) -> bool:
        return is_module_name(self._name(entry))

    def _entry_by_name(self, entry: int) -> Mapping[str, int]:
        """Return the entries of the side that has this one, by name; the other side may have another call of a name."""
        return self._table.numbers_by_name[self._table.entries[entry].target is None]

    def _ancestors(self, entry: int) -> Iterator[str]:
        """Yield the names of the enclosing module entries, from inside to outside."""
        golden_only = self._table.entries[entry].target is None
        construct = (self._comparison.golden if golden_only else self._comparison.target).construct
        numbers = self._entry_by_name(entry)
        name: str | None = self._name(entry)
        visited: set[str] = set()
        while name is not None and name not in visited:
            visited.add(name)
            name = parent_in_phase(construct, name, numbers)
            if name is not None:
                yield name

    def _source(self, entry: int) -> PairSource:
        return source_of_pair(self._table.entries[entry], self._comparison.target, self._comparison.golden)

    def _module(self, entry: int) -> str | None:
        return self._source(entry).own.module

    def _result(self, entry: int, row: int, module: str | None, note: str) -> FirstDivergence:
        """Describe the divergence that a row shows; ``note`` says why it is the first one."""
        target, golden = self._table.target[row], self._table.golden[row]
        kind = RowKind(int(self._comparison.judged.kind[row]))
        leaf = target or golden
        slot = leaf and slot_of(leaf)
        together = self._table.together.get(row)
        note += f"; {together.name} taken together" if together is not None else ""
        text = f"{slot or 'value'}: {self._reason(row)}; {note}"
        description = self._build(entry, slot, cast(KindText, kind.name.lower()), text, module)
        _add_figures(description, self._comparison, row)
        return description

    def _reason(self, row: int) -> str:
        """Return in words what differs in a row."""
        kind = RowKind(int(self._comparison.judged.kind[row]))
        reasons = Reasons(self._comparison.measured, self._comparison.judged, slice(row, row + 1))
        return reasons.text(kind, row, self._table.target[row], self._table.golden[row])

    def _build(
        self,
        entry: int,
        slot: str | None,
        kind: KindText,
        text: str,
        module: str | None,
        pair: EntryPair | None = None,
    ) -> FirstDivergence:
        """Describe an entry; ``pair`` are its names where the table does not pair them."""
        pair, place = pair or self._table.entries[entry], self._comparison.target.place
        description = FirstDivergence(
            step=place.step,
            rank=place.number if place.kind == "rank" else None,
            target=pair.target,
            golden=pair.golden,
            slot=slot,
            kind=kind,
            reason=text,
            module=module,
            stack=[],
        )
        set_place(description, source_of_pair(pair, self._comparison.target, self._comparison.golden))
        return description


def _add_figures(description: FirstDivergence, comparison: Comparison, row: int) -> None:
    """Fill in the figures of the row that shows the divergence: tolerance, and the elements that differ."""
    judged = comparison.judged
    times = float(judged.times[row])
    if judged.kind[row] == RowKind.VALUE and math.isfinite(times):
        description.tolerance, description.times_tolerance = float(judged.tolerance[row]), times
    difference = comparison.tensors[row] if comparison.tensors is not None else None
    elements = difference.elements if difference is not None else None
    if elements is not None and elements.first is not None and elements.worst is not None:
        description.first_index, description.worst_index = list(elements.first), list(elements.worst)
        description.worst_target, description.worst_golden = repr(elements.target), repr(elements.golden)
