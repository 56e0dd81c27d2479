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

import numpy as np

from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import CallSource, in_phase, module_text, source_of_pair
from msprobe.compare.records.entries import parent_of
from msprobe.compare.rows.explanations import Reasons
from msprobe.compare.rows.summary import FirstDivergence, KindText
from msprobe.core.naming.names import is_module_name
from msprobe.numerics.verdict import Role, RowKind

OPTIMIZER = "optimizer"
OUTLIER = 100.0
UNEXPLAINED = "its input differs and no recorded call made it so"


class Divergence(NamedTuple):
    """The first divergence of one pair of dumps.

    Args:
        entry: its position in the table, by which ranks are ordered.
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
    return _DivergenceSearch(comparison, later_step).run()


class _DivergenceSearch:
    """Searches one comparison; entries and rows are numbers in its table."""

    def __init__(self, comparison: Comparison, later_step: bool) -> None:
        self._comparison = comparison
        self._table = comparison.table
        self._later_step = later_step
        self._differs = comparison.judged.kind > RowKind.UNCHECKED
        self._by_target: dict[str, int] = {}
        self._by_golden: dict[str, int] = {}

    def run(self) -> Divergence | None:
        """Return the first divergence, None where no entry diverges."""
        diverging = self._comparison.row_levels.diverging.nonzero()[0]
        if not diverging.size:
            return None
        entry = int(diverging[0])
        for number, pair in enumerate(self._table.entries):
            if pair.target is not None:
                self._by_target[pair.target] = number
            if pair.golden is not None:
                self._by_golden[pair.golden] = number
        return Divergence(entry, self._describe(entry))

    def _describe(self, entry: int) -> FirstDivergence:
        entry = self._effect_in_backward(entry)
        pair = self._table.entries[entry]
        if entry in self._table.changed:
            return self._changed_recompute(entry)
        if pair.target is None or pair.golden is None:
            return self._missing(entry)
        entry = self._gradient_source(entry)
        for explain in (self._own_parameter, self._own_argument, self._unexplained_input):
            description = explain(entry)
            if description is not None:
                return description
        row = self._differing_rows(entry)[0]
        return self._result(entry, row, self._module(entry), "its inputs agree")

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
        return [
            row
            for row in self._differing_rows(entry, Role.INPUT)
            if self._comparison.judged.kind[row] != RowKind.ARGUMENT
        ]

    def _gradient_source(self, entry: int) -> int:
        """Return the backward entry of the module for a parameter gradient that follows from it (it may be recorded
        later); any other entry stays."""
        depends = int(self._comparison.measured.depends[entry])
        if self._table.keys[entry].phase == "parameters_grad" and depends >= 0 and self._tensor_inputs(depends):
            return depends
        return entry

    # Explanations

    def _own_parameter(self, entry: int) -> FirstDivergence | None:
        rows = self._differing_rows(entry, Role.PARAMETER)
        if not rows:
            return None
        if self._later_step and self._moved_with_others(rows[0]):
            return self._result(entry, rows[0], OPTIMIZER, "the step before agrees, so its weight update differs")
        return self._result(entry, rows[0], self._module(entry), "a parameter of this module")

    def _moved_with_others(self, row: int) -> bool:
        """Return whether most trained parameters differ about as much as this one, as after a wrong update."""
        parameters = np.flatnonzero(self._comparison.measured.role == Role.PARAMETER)
        trained = [other for other in parameters if self._raw(other).get("requires_grad")]
        worst, value = self._comparison.measured.worst, self._comparison.judged.kind[row] == RowKind.VALUE
        return value and len(trained) > 1 and bool(worst[row] <= OUTLIER * np.median(worst[trained]))

    def _own_argument(self, entry: int) -> FirstDivergence | None:
        rows = [
            row
            for row in self._differing_rows(entry, Role.INPUT)
            if self._comparison.judged.kind[row] == RowKind.ARGUMENT
        ]
        return self._result(entry, rows[0], self._module(entry), "an argument of this call") if rows else None

    def _unexplained_input(self, entry: int) -> FirstDivergence | None:
        rows = self._tensor_inputs(entry)
        if not rows:
            return None
        ancestors, numbers = list(self._ancestors(entry)), self._entry_by_name(entry)
        for ancestor in ancestors:
            number = numbers.get(ancestor)
            if number is not None and self._owns(number, rows[0]):
                return self._own_parameter(number)
        enclosing: str | None = None
        for ancestor in ancestors:
            number = numbers.get(ancestor)
            if number is None:
                enclosing = self._module(entry)
                break
            if not self._differing_rows(number, Role.INPUT, Role.PARAMETER):
                return self._enters_in(number, entry, rows[0])
        return self._result(entry, rows[0], enclosing, UNEXPLAINED)

    def _enters_in(self, enclosing: int, entry: int, row: int) -> FirstDivergence:
        """Describe an entry whose input differs, where the input of the enclosing module does not."""
        module = module_text(self._name(enclosing))
        results = self._differing_rows(enclosing, Role.RESULT)
        if not self._is_module(entry) or not results:
            return self._result(entry, row, module, UNEXPLAINED)
        note = f"its inputs agree; the difference shows first at the input of {self._name(entry)}"
        return self._result(enclosing, results[0], module, note)

    def _owns(self, number: int, row: int) -> bool:
        """Return whether this module has a differing parameter of the shape of the tensor in ``row``."""
        shape = self._raw(row).get("shape")
        return any(self._raw(own).get("shape") == shape for own in self._differing_rows(number, Role.PARAMETER))

    def _missing(self, entry: int) -> FirstDivergence:
        golden_only = self._table.entries[entry].target is None
        if self._table.keys[entry].phase == "forward":
            entry, module = self._whole_call(entry)
        else:
            module = self._where_gradient_ends(entry) if golden_only else self._module(entry)
        side, other = ("golden run", "target") if golden_only else ("target", "golden run")
        text = f"the {side} records {self._name(entry)}, the {other} does not{self._instead(entry, golden_only)}"
        return self._build(entry, None, "missing_in_target" if golden_only else "missing_in_golden", text, module)

    def _changed_recompute(self, entry: int) -> FirstDivergence:
        changed, golden_only = self._table.changed[entry], self._table.entries[entry].target is None
        slot, side = changed.suffix.lstrip("."), "target" if golden_only else "golden run"
        text = f"{slot} {changed.text}; the {side} recomputes nothing to compare it with"
        return self._build(entry, slot, "value", text, self._module(entry))

    def _instead(self, entry: int, golden_only: bool) -> str:
        """Return in words which call the other side has in place of this one; "" where it has none."""
        for other in (entry - 1, entry + 1):
            if 0 <= other < len(self._table.entries) and self._is_one_sided(other):
                pair = self._table.entries[other]
                name = pair.target if golden_only else pair.golden
                if name is not None:
                    return f" and has {name} there"
        return ""

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

    def _entry_by_name(self, entry: int) -> dict[str, int]:
        """Return the entries of the side that has this one, by name; the other side may have another call of a name."""
        return self._by_golden if self._table.entries[entry].target is None else self._by_target

    def _ancestors(self, entry: int) -> Iterator[str]:
        """Yield the names of the enclosing module entries, from inside to outside."""
        golden_only = self._table.entries[entry].target is None
        construct = (self._comparison.golden if golden_only else self._comparison.target).construct
        numbers = self._entry_by_name(entry)
        name: str | None = self._name(entry)
        visited: set[str] = set()
        while name is not None and name not in visited:
            visited.add(name)
            name = _parent(construct, name, numbers)
            if name is not None:
                yield name

    def _source(self, entry: int) -> CallSource:
        return source_of_pair(self._table.entries[entry], self._comparison.target, self._comparison.golden)

    def _module(self, entry: int) -> str | None:
        return self._source(entry).module

    def _result(self, entry: int, row: int, module: str | None, note: str) -> FirstDivergence:
        """Describe the divergence that a row shows; ``note`` says why it is the first one."""
        target, golden = self._table.target[row], self._table.golden[row]
        kind = RowKind(int(self._comparison.judged.kind[row]))
        leaf = target or golden
        slot = leaf and leaf.suffix.lstrip(".")
        if leaf is not None and leaf.slot == "parameters_grad":
            slot = f"{leaf.slot}{leaf.suffix}"
        reasons = Reasons(self._comparison.measured, self._comparison.judged, slice(row, row + 1))
        together = self._table.together.get(row)
        note += f"; {together.name} taken together" if together is not None else ""
        text = f"{slot or 'value'}: {reasons.text(kind, row, target, golden)}; {note}"
        description = self._build(entry, slot, cast(KindText, kind.name.lower()), text, module)
        _add_figures(description, self._comparison, row)
        return description

    def _build(self, entry: int, slot: str | None, kind: KindText, text: str, module: str | None) -> FirstDivergence:
        pair, place = self._table.entries[entry], self._comparison.target.place
        return FirstDivergence(
            step=place.step,
            rank=place.number if place.kind == "rank" else None,
            target=pair.target,
            golden=pair.golden,
            slot=slot,
            kind=kind,
            reason=text,
            module=module,
            stack=list(self._source(entry).stack),
        )


def _parent(construct: Mapping[str, Any], name: str, numbers: Mapping[str, int]) -> str | None:
    """Return the recorded parent of an entry; of a backward entry without one, that of its forward entry in the
    backward pass."""
    parent = parent_of(construct, name)
    forward = None if parent is not None else parent_of(construct, in_phase(name, "forward"))
    if forward is None:
        return parent
    backward = in_phase(forward, "backward")
    return backward if backward in numbers or forward not in numbers else forward


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
