"""Gradients that are null, or lack a term, on one side: the call where they are cut off there."""

from __future__ import annotations

from msprobe.analyze.compared_entries import WITHOUT_GRADIENT, ComparedEntries
from msprobe.compare.records.call_source import module_text
from msprobe.compare.records.entries import parents_of
from msprobe.compare.regions.cut_gradients import (
    call_that_keeps,
    cutting_call,
    loses_gradient,
    side_of_cut,
    side_without_gradient,
)
from msprobe.compare.rows.summary import FirstDivergence, set_place
from msprobe.numerics.verdict import Role


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
