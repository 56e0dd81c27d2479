"""What makes a value of merged ranks wrong: calls outside of the modules, and sums that nobody has added up."""

from __future__ import annotations

from msprobe.analyze.compared_entries import ComparedEntries
from msprobe.compare.records.call_source import PairSource, of_stack
from msprobe.compare.rows.summary import FirstDivergence, set_place
from msprobe.numerics.verdict import Role, RowKind


class MergedRanks(ComparedEntries):
    """Describes wrong values of merged ranks; entries and rows are numbers in the table.

    Attributes:
        place_told: whether a description names the line already.
    """

    place_told = False

    def result_of_model(self, entry: int) -> FirstDivergence | None:
        """Describe what the model itself returns on merged ranks, which has no inputs there, by a call outside of the
        other modules."""
        if any(self.comparison.measured.role[row] == Role.INPUT for row in self.table.rows_of(entry)):
            return None
        return self.from_outside(entry, self.differing_rows(entry)[0], "what the model returns differs")

    def wrong_gradient(self, entry: int) -> FirstDivergence | None:
        """Describe a gradient that the optimizer of merged ranks gets, by what makes it wrong."""
        if not self.comparison.target.merged:
            return None
        from msprobe.compare.parallel.merged_dump import update_of  # loaded where ranks are merged

        if (found := update_of(self.comparison.target, self.table.entries[entry].target)) is None:
            return None
        number = self.entry_by_name(entry).get(found.entry or "", entry)
        number = number if self.differing_rows(number) else entry
        row = self.differing_rows(number)[0]
        description = self.result(number, row, self.module(number) if not found.stack else None, found.reason)
        if found.stack:
            set_place(description, PairSource(of_stack(found.stack), None))
        self.place_told = True
        return description

    def from_outside(self, entry: int, row: int, what: str = "its input differs") -> FirstDivergence | None:
        """Describe a call by the function outside of the modules of merged ranks that makes its wrong input."""
        if not self.comparison.target.merged:
            return None
        from msprobe.compare.parallel.merged_dump import suspect_of  # loaded where ranks are merged

        if (found := suspect_of(self.comparison.target, self.table.entries[entry].target)) is None:
            return None
        description = self.result(entry, row, self.module(entry), f"{what}; {found.reason}")
        set_place(description, PairSource(of_stack(found.stack), None))
        self.place_told = True
        return description

    def not_added(self, enclosing: int, entry: int, row: int) -> FirstDivergence | None:
        """Describe a result that ranks hold as summands by the last module before an entry whose results are some."""
        target, numbers = self.comparison.target, self.entry_by_name(enclosing)
        if self.comparison.judged.kind[row] != RowKind.NOT_ADDED:
            return None
        from msprobe.compare.parallel.merged_dump import summands_of  # loaded where ranks are merged

        before = [(numbers[name], maker) for name, maker in summands_of(target).items() if name in numbers]
        maker = max((pair for pair in before if pair[0] < min(entry, enclosing)), default=None)
        if maker is None or maker[1] not in numbers:
            return None
        text = f"{self.reason(row)}: {self.name(enclosing)} and what follows it get them from here"
        return self.build(numbers[maker[1]], None, "not_added", text, self.module(numbers[maker[1]]))
