"""Where a gradient is cut off: the call that gets a tensor which requires a gradient on one side alone.

``detach`` and ``no_grad`` leave no record of their own. The forward call that gets what they return is the first one
whose input requires a gradient in one run and none in the other; the missing gradient shows much later, in the
backward pass.

Where a call of one side alone returns that tensor, with the values that the other side has without a gradient, this
call is what the other run has not: ``x + (y - x).detach()`` for ``y``. A gradient that is wrong and not lost can have
the same reason, where it is a sum and one of its terms is cut off.

A value that both sides compute may have a gradient on one side alone because only there another call uses it: a term of
a loss that one run leaves out. That call makes the difference, and the gradients before it are lost for its sake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msprobe.analyze.compared_entries import WITHOUT_GRADIENT, ComparedEntries
from msprobe.compare.records.call_source import in_phase, module_text
from msprobe.compare.records.entries import is_module, parents_of
from msprobe.compare.rows.summary import FirstDivergence, set_place
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT
from msprobe.core.tensors.statistics import LARGEST
from msprobe.numerics.verdict import Ints, Judged, Role, RowKind
from msprobe.trace.leaves import as_float
from msprobe.trace.likeness import EXACT, same_values

_NULL_ON = {RowKind.MISSING_IN_TARGET: "target", RowKind.MISSING_IN_GOLDEN: "golden run"}


class CutGradients(ComparedEntries):
    """Describes wrong gradients by the call where one side cuts them off; entries and rows are numbers in the table."""

    def cut_gradient(self, entry: int) -> FirstDivergence | None:
        """Describe a gradient that is null on one side by the call where it is cut off."""
        rows = self.differing_rows(entry, Role.RESULT)
        side = side_without_gradient(self.table, self.comparison.judged, entry, rows)
        if not side:
            return None
        return self._cut_before(entry, rows[0])

    def cut_term(self, entry: int) -> FirstDivergence | None:
        """Describe a wrong gradient by the call where one of its terms is cut off on one side."""
        rows, end = self.tensor_inputs(entry), len(self.table.entries)
        if not rows or self.table.keys[entry].phase != "backward":
            return None
        # A backward pass through gradients changes what an earlier one has recorded of the same calls.
        call = cutting_call(self.table, self.comparison.measured.role, self.comparison.target.construct, end)
        lost = call is not None and loses_gradient(self.table, self.comparison.judged, call)
        return self._cut_before(entry, rows[0], end) if lost else None

    def _cut_before(self, entry: int, row: int, end: int | None = None) -> FirstDivergence | None:
        """Describe a gradient, of which a row differs, by the forward call before it, or before ``end``, that cuts it
        off on one side."""
        role = self.comparison.measured.role
        call = cutting_call(self.table, role, self.comparison.target.construct, entry if end is None else end)
        if call is None:
            return None
        note = f"what {self.table.entries[call].sided} gets {WITHOUT_GRADIENT} in the "
        note, keeps = note + side_of_cut(self.table, role, call), call_that_keeps(self.table, role, call)
        around = next(self.ancestors(call if keeps is None else keeps), None)
        if keeps is not None:
            note += f"; {self.table.entries[keeps].sided} returns it with one"
        description = self.result(entry, row, around and module_text(around), note)
        set_place(description, self.source(call if keeps is None else keeps))
        golden = self.table.entries[call if keeps is None else keeps].golden
        outside = next(parents_of(self.comparison.golden.construct, golden or ""), None)
        description.golden_module = outside and module_text(outside)
        return description


def side_without_gradient(table: LeafTable, judged: Judged, entry: int, rows: Sequence[int]) -> str:
    """Return the side on which all gradients in ``rows`` of a backward entry are null; "" where there is none.

    Args:
        table: both dumps.
        judged: the verdicts of all rows.
        entry: the number of the entry; every other phase has no such side.
        rows: the rows of its results that differ.
    """
    sides = {_NULL_ON.get(RowKind(int(judged.kind[row])), "") for row in rows}
    backward = table.keys[entry].phase == Phase.BACKWARD.value
    return sides.pop() if backward and len(sides) == 1 else ""


def cutting_call(table: LeafTable, role: Ints, construct: Mapping[str, Any], entry: int) -> int | None:
    """Return the first forward call before ``entry`` that gets a tensor which requires a gradient on one side alone, or
    the outermost module around it that gets such a tensor; None where there is none.

    Args:
        table: both dumps.
        role: the ``Role`` of each row.
        construct: the parents of the entries of the target.
        entry: the number of the backward entry whose gradient one side lacks.
    """
    first = next((number for number in range(entry) if _is_cut(table, role, number)), None)
    if first is None:
        return None
    keyed = enumerate(zip(table.entries, table.keys, strict=True))
    modules = {pair.target: number for number, (pair, key) in keyed if pair.target and is_module(key)}
    for name in parents_of(construct, table.entries[first].target or ""):
        around = modules.get(name)
        if around is None or not _is_cut(table, role, around):
            break
        first = around
    return first


def _is_cut(table: LeafTable, role: Ints, entry: int) -> bool:
    if table.keys[entry].phase != Phase.FORWARD.value or not table.entries[entry].of_both:
        return False
    return bool(_cut_rows(table, role, entry))


def _cut_rows(table: LeafTable, role: Ints, entry: int) -> list[int]:
    """Return the rows of the tensors that a call gets, and that require a gradient on one side alone."""
    return [row for row in table.rows_of(entry) if role[row] == Role.INPUT and side_requiring(table, row) is not None]


def side_of_cut(table: LeafTable, role: Ints, cut: int) -> str:
    """Return the side, in words, on which a tensor that ``cut`` gets requires no gradient."""
    return "golden run" if side_requiring(table, _cut_rows(table, role, cut)[0]) == 0 else "target"


def call_that_keeps(table: LeafTable, role: Ints, cut: int) -> int | None:
    """Return the last call before ``cut`` that one side alone makes, and that returns the tensor with a gradient which
    this call gets without one on the other side; None where there is none."""
    for row in _cut_rows(table, role, cut):
        side = int(side_requiring(table, row) == 1)
        leaf = table.leaf(side, row)
        for number in range(cut - 1, -1, -1):
            pair = table.entries[number]
            if leaf is None or pair.of_both or pair[side] is None or table.keys[number].phase != Phase.FORWARD.value:
                continue
            results = (raw for _, raw in table.values(side, number, OUTPUT) if raw.get("requires_grad"))
            if any(same_values(raw, leaf.raw, EXACT) for raw in results):
                return number
    return None


def loses_gradient(table: LeafTable, judged: Judged, call: int) -> bool:
    """Return whether one side alone has a gradient of a forward call of both sides, or of what it gets."""
    names = [in_phase(str(name), Phase.BACKWARD.value) for name in table.entries[call][:2]]
    for number, pair in enumerate(table.entries):
        if pair.target != names[0] and pair.golden != names[1]:
            continue
        if not pair.of_both or any(RowKind(int(judged.kind[row])) in _NULL_ON for row in table.rows_of(number)):
            return True
    return False


def side_requiring(table: LeafTable, row: int) -> int | None:
    """Return the side, 0 or 1, on which alone the tensor in a row requires a gradient, as far as both sides say whether
    it does; None where they agree, or one does not say."""
    leaves = table.target[row], table.golden[row]
    said = [leaf.raw.get("requires_grad") for leaf in leaves if leaf is not None and isinstance(leaf.raw, dict)]
    once = len(said) == 2 and all(isinstance(value, bool) for value in said) and said[0] != said[1]
    return said.index(True) if once else None


def only_use(table: LeafTable, entry: int) -> int | None:
    """Return the first later call of one side alone that gets what a call of both sides returns, whose gradient the
    same side alone has; None where a call of both sides gets it before, or none does.

    Args:
        table: both dumps.
        entry: the number of the backward entry of one side.
    """
    side = int(table.entries[entry].target is None)
    name = in_phase(table.entries[entry].name, Phase.FORWARD.value)
    forward = next((number for number, pair in enumerate(table.entries) if pair.of_both and pair[side] == name), None)
    if forward is None or table.keys[entry].phase != Phase.BACKWARD.value:
        return None
    results = [raw for _, raw in table.values(side, forward, OUTPUT) if as_float(raw.get(LARGEST.name)) != 0.0]
    for number in range(forward + 1, len(table.entries)):
        if table.keys[number].phase != Phase.FORWARD.value or table.entries[number][side] is None:
            continue
        given = [raw for _, raw in table.values(side, number, INPUT)]
        if any(
            raw.get("shape") == own.get("shape") and same_values(raw, own, EXACT) for raw in given for own in results
        ):
            return None if table.entries[number].of_both else number
    return None
