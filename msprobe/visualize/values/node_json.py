"""The values of the nodes of two compared graphs as JSON.

The JSON of a node is made when the node is written: that of all nodes together would be larger than both dumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import leaves
from msprobe.visualize.graph.node import Graph, Node
from msprobe.visualize.values.comparison_json import CONSISTENT, DifferenceTexts, StatisticPairs, StatisticTexts
from msprobe.visualize.values.row_verdicts import RowVerdicts, verdict_text
from msprobe.visualize.values.value_json import EMPTY_SIDES, OpenedValue, ValueTexts, entry_json, sides_json

if TYPE_CHECKING:
    from msprobe.visualize.values.json_worker import TextWorker


class ComparedTexts:
    """Inputs and outputs of a node as JSON, on the target side with what comparing adds."""

    def __init__(
        self,
        graphs: tuple[Graph, Graph],
        comparison: Comparison,
        rows: RowVerdicts,
        pairs: StatisticPairs,
        worker: TextWorker | None = None,
    ) -> None:
        """Take target and golden graph and their comparison; ``worker`` makes the texts of ``pairs`` already."""
        target, golden = graphs
        self._table, self._rows, self._worker = comparison.table, rows, worker
        self._target, self._golden = target.dump.data, golden.dump.data
        self._checksums = comparison.mode is Mode.CHECKSUM
        self._target_statistics: TextWorker | StatisticTexts = StatisticTexts(pairs) if worker is None else worker
        self._golden_statistics = StatisticTexts(pairs, golden=True)
        self._differences = DifferenceTexts(comparison)
        self._texts = ValueTexts(checksums=self._checksums)
        self._starts: list[int] = comparison.table.starts.tolist()
        self._entry_of_target, self._entry_of_golden = comparison.table.numbers_by_name
        self._without_rows = _entries_without_rows(comparison.table)

    def target_json(self, node: Node) -> tuple[str, str]:
        """Return the inputs and the outputs of a node of the target."""
        number = self._entry_of_target.get(node.name)
        if number is None or node.name not in self._target:
            return EMPTY_SIDES
        start, stop = self._starts[number], self._starts[number + 1]
        if number in self._without_rows or number in self._table.joined:
            return self._joined_json(node, range(start, stop) if number in self._table.joined else range(0))
        values = self._table.target[start:stop]
        if node.match is None or node.match.name != self._table.entries[number].golden:
            return entry_json(node.name, (leaf for leaf in values if leaf is not None), self._texts)
        open_object, statistics_of, verdict = self._texts.open_object, self._target_statistics.of_row, self._verdict
        opened: list[OpenedValue] = []
        for row, leaf in enumerate(values, start):
            if leaf is not None:
                texts = statistics_of(row)
                if texts is None:
                    opened.append((leaf, open_object(leaf), self._added_fields(row)))
                else:
                    numbers, more = texts
                    last = "" if more[-1] != "," else verdict(row)
                    opened.append((leaf, open_object(leaf, numbers), f",{more}{last}"))
        return sides_json(node.name, opened)

    def _joined_json(self, node: Node, rows: range) -> tuple[str, str]:
        """Return the own values of a fused layer, or of a part of one.

        The rows of the entry hold what several layers make together; what comparing adds stands where the entry has a
        row for the value.
        """
        row_of = {leaf.suffix: row for row in rows if (leaf := self._table.target[row]) is not None}
        opened: list[OpenedValue] = []
        for leaf in leaves(node.name, self._target[node.name]):
            row = row_of.get(leaf.suffix)
            opened.append((leaf, self._texts.open_object(leaf), "" if row is None else self._added_fields(row)))
        return sides_json(node.name, opened)

    def golden_json(self, node: Node) -> tuple[str, str]:
        """Return the inputs and the outputs of a node of the golden run.

        Values that rows took to other entries are read from its dump.
        """
        if node.name not in self._golden:
            return EMPTY_SIDES
        number = self._entry_of_golden.get(node.name)
        in_order = number is None or bool(self._table.other_entry) or self._table.alike[number]
        ready = self._worker.golden_json(node.name) if self._worker is not None and in_order else None
        if ready is not None:
            return ready
        if number is None or self._table.other_entry or number in self._without_rows or number in self._table.joined:
            return entry_json(node.name, leaves(node.name, self._golden[node.name]), self._texts)
        start, stop = self._starts[number], self._starts[number + 1]
        open_object, statistics_of = self._texts.open_object, self._golden_statistics.of_row
        opened: list[OpenedValue] = []
        for row, leaf in enumerate(self._table.golden[start:stop], start):
            if leaf is not None:
                texts = statistics_of(row)
                opened.append((leaf, open_object(leaf, None if texts is None else texts[0]), ""))
        return sides_json(node.name, opened)

    def _added_fields(self, row: int) -> str:
        """Return what comparing adds to any value of the target, with a leading comma."""
        target, golden = self._table.target[row], self._table.golden[row]
        left, right = target[2] if target is not None else None, golden[2] if golden is not None else None
        same = (left.get("requires_grad") if type(left) is dict else None) == (
            right.get("requires_grad") if type(right) is dict else None
        )
        consistent, verdict = CONSISTENT % same, self._verdict(row)
        if self._checksums:
            level, _, messages = verdict.partition(",")
            return f",{level},{consistent},{messages}"
        return f",{self._differences.of_row(row)},{consistent},{verdict}"

    def _verdict(self, row: int) -> str:
        """Return the fields of the verdict of a row and its messages."""
        return verdict_text(self._rows.levels[row], self._rows.messages(row))


def _entries_without_rows(table: LeafTable) -> frozenset[int]:
    """Return the entries of a single side whose rows may belong to another entry since fused layers were joined."""
    if not table.joined:
        return frozenset()
    parts = {name for names in table.joined.values() for name in names[1:]}
    return frozenset(number for number, pair in enumerate(table.entries) if (pair.target or pair.golden) in parts)
