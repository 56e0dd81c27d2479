"""The first operation that went wrong: the earliest entry that is wrong by itself, not by what it was given.

Entries are walked in execution order. The first one with any difference is the answer when its inputs agree. When they
differ although nothing before them does, the cause is code that leaves no record (a view, a slice, a gradient hook):
then the innermost enclosing module whose own inputs agree is named, or the module whose parameter it is, or none when
the difference comes from outside of every recorded module.

The figures behind a first divergence: tolerance, times tolerance, and the elements that differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import CallSource, in_phase, module_text, source_of_pair
from msprobe.compare.records.entries import parent_of
from msprobe.compare.rows.explanations import Reasons
from msprobe.compare.rows.summary import FirstDivergence, KindText
from msprobe.core.naming.names import MODULE_PREFIXES
from msprobe.numerics.verdict import Role, RowKind


def explained(found: FirstDivergence, comparison: Comparison, row: int) -> FirstDivergence:
    """The same divergence, with what is known about the row that shows it filled in."""
    judged = comparison.judged
    times = float(judged.times[row])
    if judged.kind[row] == RowKind.VALUE and math.isfinite(times):
        found.tolerance, found.times_tolerance = float(judged.tolerance[row]), times
    difference = comparison.tensors[row] if comparison.tensors is not None else None
    elements = difference.elements if difference is not None else None
    if elements is not None and elements.first is not None and elements.worst is not None:
        found.first_index, found.worst_index = list(elements.first), list(elements.worst)
        found.worst_target, found.worst_golden = repr(elements.target), repr(elements.golden)
    return found


OPTIMIZER = "optimizer"
OUTLIER = 100.0
UNEXPLAINED = "its input differs and no recorded call made it so"


@dataclass(frozen=True, slots=True)
class Divergence:
    """The answer for one dump pair and its position, for comparing ranks."""

    entry: int
    found: FirstDivergence


def first_divergence(comparison: Comparison, *, later_step: bool = False) -> Divergence | None:
    """The first divergence of one dump pair, or None. ``later_step`` says that an earlier step was compared and
    agreed."""
    return _Finder(comparison, later_step).find()


class _Finder:
    def __init__(self, comparison: Comparison, later_step: bool) -> None:
        self._c = comparison
        self._table = comparison.table
        self._later_step = later_step
        self._differs = comparison.judged.kind > RowKind.UNCHECKED
        self._by_target: dict[str, int] = {}
        self._by_golden: dict[str, int] = {}

    def find(self) -> Divergence | None:
        diverging = self._c.row_levels.diverging.nonzero()[0]
        if not diverging.size:
            return None
        entry = int(diverging[0])
        for number, pair in enumerate(self._table.entries):
            if pair.target is not None:
                self._by_target[pair.target] = number
            if pair.golden is not None:
                self._by_golden[pair.golden] = number
        return Divergence(entry, self._explain(entry))

    def _explain(self, entry: int) -> FirstDivergence:
        entry = self._effect_in_backward(entry)
        pair = self._table.entries[entry]
        if entry in self._table.changed:
            return self._recomputed_anew(entry)
        if pair.target is None or pair.golden is None:
            return self._missing(entry)
        entry = self._gradient_source(entry)
        for choose in (self._own_parameter, self._own_argument, self._unexplained_input):
            found = choose(entry)
            if found is not None:
                return found
        row = self._rows(entry)[0]
        return self._result(entry, row, self._module(entry), "its inputs agree")

    def _effect_in_backward(self, entry: int) -> int:
        """What a hand-written backward or a gradient hook calls tells less than the gradients it leaves behind."""
        keys = self._table.keys
        own = keys[entry].phase != "forward" or in_phase(keys[entry].name, "backward") in self._numbers(entry)
        if own or self._module(entry) is not None or all(key.phase != "backward" for key in keys[:entry]):
            return entry
        backward = [
            number for number in range(len(keys)) if keys[number].phase == "backward" and self._is_module(number)
        ]
        # After the last of them only gradients of parameters follow.
        end = next((number for number in backward if number > entry), len(keys) - 1 if backward else entry)
        for number in range(entry + 1, end + 1):
            if keys[number].phase != "forward" and self._is_wrong(number):
                return number
            if keys[number].phase == "forward" and self._is_module(number) and not keys[number].recompute:
                break
        return entry

    def _is_wrong(self, entry: int) -> bool:
        return bool(self._c.row_levels.diverging[entry])

    def _is_lone(self, entry: int) -> bool:
        pair = self._table.entries[entry]
        return (pair.target is None or pair.golden is None) and not pair.benign

    # What differs in an entry

    def _rows(self, entry: int, *roles: Role) -> list[int]:
        start, end = int(self._table.starts[entry]), int(self._table.starts[entry + 1])
        role = self._c.measured.role
        wanted = self._differs[start:end].nonzero()[0] + start
        return [int(row) for row in wanted if not roles or role[row] in roles]

    def _raw(self, row: int) -> dict[str, Any]:
        """What the golden run records of a tensor; empty for anything else."""
        leaf = self._table.golden[row]
        return leaf.raw if leaf is not None and isinstance(leaf.raw, dict) else {}

    def _tensor_inputs(self, entry: int) -> list[int]:
        return [row for row in self._rows(entry, Role.INPUT) if self._c.judged.kind[row] != RowKind.ARGUMENT]

    def _gradient_source(self, entry: int) -> int:
        """A parameter gradient follows from the backward entry of its module, which may be recorded after it."""
        depends = int(self._c.measured.depends[entry])
        if self._table.key(entry).phase == "parameters_grad" and depends >= 0 and self._tensor_inputs(depends):
            return depends
        return entry

    # The cases

    def _own_parameter(self, entry: int) -> FirstDivergence | None:
        rows = self._rows(entry, Role.PARAMETER)
        if not rows:
            return None
        if self._later_step and self._moved_with_others(rows[0]):
            return self._result(entry, rows[0], OPTIMIZER, "the step before agrees, so its weight update differs")
        return self._result(entry, rows[0], self._module(entry), "a parameter of this module")

    def _moved_with_others(self, row: int) -> bool:
        """Whether the trained parameters differ by and large as much as this one: a wrong update hits them all."""
        parameters = np.flatnonzero(self._c.measured.role == Role.PARAMETER)
        trained = [other for other in parameters if self._raw(other).get("requires_grad")]
        worst, value = self._c.measured.worst, self._c.judged.kind[row] == RowKind.VALUE
        return value and len(trained) > 1 and bool(worst[row] <= OUTLIER * np.median(worst[trained]))

    def _own_argument(self, entry: int) -> FirstDivergence | None:
        rows = [row for row in self._rows(entry, Role.INPUT) if self._c.judged.kind[row] == RowKind.ARGUMENT]
        return self._result(entry, rows[0], self._module(entry), "an argument of this call") if rows else None

    def _unexplained_input(self, entry: int) -> FirstDivergence | None:
        rows = self._tensor_inputs(entry)
        if not rows:
            return None
        ancestors, numbers = list(self._ancestors(entry)), self._numbers(entry)
        for ancestor in ancestors:
            number = numbers.get(ancestor)
            if number is not None and self._owns(number, rows[0]):
                return self._own_parameter(number)
        around: str | None = None
        for ancestor in ancestors:
            number = numbers.get(ancestor)
            if number is None:
                around = self._module(entry)
                break
            if not self._rows(number, Role.INPUT, Role.PARAMETER):
                return self._enters_in(number, entry, rows[0])
        return self._result(entry, rows[0], around, UNEXPLAINED)

    def _enters_in(self, enclosing: int, entry: int, row: int) -> FirstDivergence:
        """The input of ``entry`` differs and that of the module around it does not."""
        module = module_text(self._name(enclosing))
        results = self._rows(enclosing, Role.RESULT)
        if not self._is_module(entry) or not results:
            return self._result(entry, row, module, UNEXPLAINED)
        note = f"its inputs agree; the difference shows first at the input of {self._name(entry)}"
        return self._result(enclosing, results[0], module, note)

    def _owns(self, number: int, row: int) -> bool:
        """Whether this module has a differing parameter of the shape of the tensor in ``row``."""
        shape = self._raw(row).get("shape")
        return any(self._raw(own).get("shape") == shape for own in self._rows(number, Role.PARAMETER))

    def _missing(self, entry: int) -> FirstDivergence:
        lost = self._table.entries[entry].target is None
        if self._table.key(entry).phase == "forward":
            entry, module = self._whole_call(entry)
        else:
            module = self._where_gradient_ends(entry) if lost else self._module(entry)
        here, there = ("golden run", "target") if lost else ("target", "golden run")
        text = f"the {here} records {self._name(entry)}, the {there} does not{self._instead(entry, lost)}"
        return self._build(entry, None, "missing_in_target" if lost else "missing_in_golden", text, module)

    def _recomputed_anew(self, entry: int) -> FirstDivergence:
        changed, lost = self._table.changed[entry], self._table.entries[entry].target is None
        slot, side = changed.suffix.lstrip("."), "target" if lost else "golden run"
        text = f"{slot} {changed.text}; the {side} recomputes nothing to compare it with"
        return self._build(entry, slot, "value", text, self._module(entry))

    def _instead(self, entry: int, lost: bool) -> str:
        for other in (entry - 1, entry + 1):
            if 0 <= other < len(self._table.entries) and self._is_lone(other):
                pair = self._table.entries[other]
                name = pair.target if lost else pair.golden
                if name is not None:
                    return f" and has {name} there"
        return ""

    def _whole_call(self, entry: int) -> tuple[int, str | None]:
        """The outermost module call that is missing as a whole, with its module, when the entry is a part of one."""
        numbers = self._numbers(entry)
        for name in self._ancestors(entry):
            number = numbers.get(name)
            if number is None or not self._is_lone(number):
                break
            entry = number
        return entry, self._module(entry)

    def _where_gradient_ends(self, entry: int) -> str | None:
        """The innermost module around a lost gradient that has one itself, or whose result asks for none."""
        around = list(self._ancestors(entry))
        if self._is_module(entry):
            around.insert(0, in_phase(self._name(entry), "backward"))
        numbers = self._numbers(entry)
        for name in around:
            number = numbers.get(name)
            if number is None or not self._is_lone(number) or not self._asks_gradient(number):
                return module_text(name)
        return None

    def _asks_gradient(self, backward: int) -> bool:
        forward = self._numbers(backward).get(in_phase(self._name(backward), "forward"))
        if forward is None:
            return True
        rows = slice(int(self._table.starts[forward]), int(self._table.starts[forward + 1]))
        outputs = [leaf.raw for leaf in self._table.target[rows] if leaf is not None and leaf.slot == "output"]
        return any(isinstance(raw, dict) and raw.get("requires_grad") for raw in outputs)

    # Names and places

    def _name(self, entry: int) -> str:
        pair = self._table.entries[entry]
        return pair.target or pair.golden or ""

    def _is_module(self, entry: int) -> bool:
        return self._name(entry).partition(".")[0] in MODULE_PREFIXES

    def _numbers(self, entry: int) -> dict[str, int]:
        """The entries of the side that has this one, by name. The other side may have another call of such a name."""
        return self._by_golden if self._table.entries[entry].target is None else self._by_target

    def _ancestors(self, entry: int) -> Iterator[str]:
        """Yield the names of the enclosing module entries, from inside to outside."""
        construct = (self._c.golden if self._table.entries[entry].target is None else self._c.target).construct
        numbers = self._numbers(entry)
        name: str | None = self._name(entry)
        visited: set[str] = set()
        while name is not None and name not in visited:
            visited.add(name)
            name = _parent(construct, name, numbers)
            if name is not None:
                yield name

    def _source(self, entry: int) -> CallSource:
        return source_of_pair(self._table.entries[entry], self._c.target, self._c.golden)

    def _module(self, entry: int) -> str | None:
        return self._source(entry).module

    def _result(self, entry: int, row: int, module: str | None, note: str) -> FirstDivergence:
        ours, theirs = self._table.target[row], self._table.golden[row]
        kind = RowKind(int(self._c.judged.kind[row]))
        leaf = ours or theirs
        slot = leaf and leaf.suffix.lstrip(".")
        if leaf is not None and leaf.slot == "parameters_grad":
            slot = f"{leaf.slot}{leaf.suffix}"
        reasons = Reasons(self._c.measured, self._c.judged, slice(row, row + 1))
        together = self._table.together.get(row)
        note += f"; {together.name} taken together" if together is not None else ""
        text = f"{slot or 'value'}: {reasons.text(kind, row, ours, theirs)}; {note}"
        return explained(self._build(entry, slot, cast(KindText, kind.name.lower()), text, module), self._c, row)

    def _build(self, entry: int, slot: str | None, kind: KindText, text: str, module: str | None) -> FirstDivergence:
        pair, place = self._table.entries[entry], self._c.target.place
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
