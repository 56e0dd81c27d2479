"""What the values that leave a region may differ by, because what enters it differs already.

The result of a call of both sides may differ by a multiple of what its inputs differ by. A region of calls that one
side makes in its own way (another attention kernel) is judged by the values that leave it, so they inherit in the same
way: from the results of calls of both sides that the region gets, and in a backward pass from those that its forward
calls got.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from msprobe.compare.records.call_source import in_phase
from msprobe.compare.regions.value_flow import ValueFlow
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, is_tensor
from msprobe.numerics.verdict import Floats, Measured, Role, RowKind


class PassedRegions:
    """Finds the inputs of calls of both sides that a region has made.

    Args:
        table: both dumps.
        measured: the differences of all rows.
        flows: the values of the calls of target and golden run.
    """

    def __init__(self, table: LeafTable, measured: Measured, flows: tuple[ValueFlow, ValueFlow]) -> None:
        self._table, self._measured, self._flows = table, measured, flows
        self._worst: Floats = np.where(measured.kind > RowKind.UNCHECKED, 0.0, measured.worst)
        self._entering: dict[tuple[int, int], float] = {}

    def inherited(self) -> Floats:
        """Return for each row how far what entered its region is apart, relative to its scale; 0 for other rows."""
        result = np.zeros(self._table.row_count)
        inputs = (self._measured.role == Role.INPUT) & (self._worst > 0.0)
        first = min(self._flows[0].alone | self._flows[1].alone)
        inputs[: int(self._table.starts[first])] = False
        entries = self._table.entry_of_row()
        for row in inputs.nonzero()[0].tolist():
            result[row] = max(self._entering_of(row, int(entries[row]), side) for side in (0, 1))
        return result

    def _entering_of(self, row: int, entry: int, side: int) -> float:
        leaf = (self._table.target, self._table.golden)[side][row]
        if leaf is None or not is_tensor(leaf.raw):
            return 0.0
        maker = self._flows[side].maker(leaf.raw, entry)
        if maker is None or maker not in self._flows[side].alone:
            return 0.0
        if (side, maker) not in self._entering:
            self._entering[side, maker] = self._of_region(side, maker)
        return self._entering[side, maker]

    def _of_region(self, side: int, last: int) -> float:
        calls = self._flows[side].chain(last)
        makers = {maker for call in calls for maker in self._makers(side, call)}
        return max((self._apart(maker) for maker in makers), default=0.0)

    def _makers(self, side: int, call: int) -> Iterator[int]:
        """Yield the calls of both sides that made what a call gets, and what its forward call got."""
        calls = [call]
        if self._table.keys[call].phase == Phase.BACKWARD.value:
            name = in_phase(self._table.entries[call].name, Phase.FORWARD.value)
            forward = self._table.numbers_by_name[side].get(name)
            calls += [] if forward is None else [forward]
        for number in calls:
            for raw in self._flows[side].values_of(number, INPUT):
                maker = self._flows[side].maker(raw, number)
                if maker is not None and maker not in self._flows[side].alone:
                    yield maker

    def _apart(self, maker: int) -> float:
        """Return how far the results of a call of both sides are apart."""
        rows = self._table.rows_of(maker)
        results = [row for row in rows if self._measured.role[row] == Role.RESULT]
        return max((float(self._worst[row]) for row in results), default=0.0)
