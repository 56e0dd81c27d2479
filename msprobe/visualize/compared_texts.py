"""The values of the nodes of two compared graphs as texts, made when a node is written: together they would be larger
than both dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.compare.items import leaves
from msprobe.compare.mode import Mode
from msprobe.compare.run import Comparison
from msprobe.compare.table import LeafTable
from msprobe.visualize.difference_text import DifferenceTexts
from msprobe.visualize.node import Graph, Node
from msprobe.visualize.row_verdicts import RowVerdicts, verdict_text
from msprobe.visualize.statistic_pairs import StatisticPairs
from msprobe.visualize.statistic_texts import CONSISTENT, StatisticTexts
from msprobe.visualize.value_text import NOTHING, Made, ValueTexts, fill_values, side_texts

if TYPE_CHECKING:
    from msprobe.visualize.text_maker import TextMaker


class ComparedTexts:
    """Inputs and outputs of a node as JSON, on the target side with what comparing adds."""

    def __init__(
        self,
        graphs: tuple[Graph, Graph],
        comparison: Comparison,
        rows: RowVerdicts,
        pairs: StatisticPairs,
        maker: TextMaker | None = None,
    ) -> None:
        """``maker`` has been told to make the texts of ``pairs``."""
        target, golden = graphs
        self._table, self._rows, self._maker = comparison.table, rows, maker
        self._target, self._golden = target.dump.data, golden.dump.data
        self._checksums = comparison.mode is Mode.CHECKSUM
        self._ours: TextMaker | StatisticTexts = StatisticTexts(pairs) if maker is None else maker
        self._theirs = StatisticTexts(pairs, golden=True)
        self._differences = DifferenceTexts(comparison.mode, comparison.table, comparison.tensors)
        self._texts = ValueTexts(checksums=self._checksums)
        self._starts: list[int] = comparison.table.starts.tolist()
        self._at = {pair.target: number for number, pair in enumerate(comparison.table.entries)}
        self._at_golden = {pair.golden: number for number, pair in enumerate(comparison.table.entries)}
        self._lost_rows = _entries_without_rows(comparison.table)

    def of_target(self, node: Node) -> tuple[str, str]:
        """A node of the target."""
        number = self._at.get(node.name)
        if number is None or node.name not in self._target:
            return NOTHING
        start, stop = self._starts[number], self._starts[number + 1]
        if number in self._lost_rows or number in self._table.joined:
            return self._of_joined(node, range(start, stop) if number in self._table.joined else range(0))
        values = self._table.target[start:stop]
        if node.match is None or node.match.name != self._table.entries[number].golden:
            return fill_values(node.name, (leaf for leaf in values if leaf is not None), self._texts)
        opened, ordinary, result = self._texts.opened, self._ours.of, self._result
        made: list[Made] = []
        for row, leaf in enumerate(values, start):
            if leaf is not None:
                texts = ordinary(row)
                if texts is None:
                    made.append((leaf, opened(leaf), self._fields(row)))
                else:
                    numbers, more = texts
                    made.append((leaf, opened(leaf, numbers), f",{more}{'' if more[-1] != ',' else result(row)}"))
        return side_texts(node.name, made)

    def _of_joined(self, node: Node, rows: range) -> tuple[str, str]:
        """A fused layer, or a part of one: its own values, with what comparing adds where the entry has a row of them.
        The rows hold what several layers make together."""
        at = {leaf.suffix: row for row in rows if (leaf := self._table.target[row]) is not None}
        made: list[Made] = []
        for leaf in leaves(node.name, self._target[node.name]):
            row = at.get(leaf.suffix)
            made.append((leaf, self._texts.opened(leaf), "" if row is None else self._fields(row)))
        return side_texts(node.name, made)

    def of_golden(self, node: Node) -> tuple[str, str]:
        """A node of the golden run. Values that rows took to other entries are read from its dump."""
        if node.name not in self._golden:
            return NOTHING
        number = self._at_golden.get(node.name)
        in_order = number is None or bool(self._table.other_entry) or self._table.alike[number]
        ready = self._maker.golden(node.name) if self._maker is not None and in_order else None
        if ready is not None:
            return ready
        if number is None or self._table.other_entry or number in self._lost_rows or number in self._table.joined:
            return fill_values(node.name, leaves(node.name, self._golden[node.name]), self._texts)
        start, stop = self._starts[number], self._starts[number + 1]
        opened, ordinary = self._texts.opened, self._theirs.of
        made: list[Made] = []
        for row, leaf in enumerate(self._table.golden[start:stop], start):
            if leaf is not None:
                texts = ordinary(row)
                made.append((leaf, opened(leaf, None if texts is None else texts[0]), ""))
        return side_texts(node.name, made)

    def _fields(self, row: int) -> str:
        """What comparing adds to any value of the target."""
        ours, theirs = self._table.target[row], self._table.golden[row]
        left, right = ours[2] if ours is not None else None, theirs[2] if theirs is not None else None
        same = (left.get("requires_grad") if type(left) is dict else None) == (
            right.get("requires_grad") if type(right) is dict else None
        )
        consistent, result = CONSISTENT % same, self._result(row)
        if self._checksums:
            verdict, _, messages = result.partition(",")
            return f",{verdict},{consistent},{messages}"
        return f",{self._differences.of(row)},{consistent},{result}"

    def _result(self, row: int) -> str:
        """The verdict and its messages."""
        return verdict_text(self._rows.levels[row], self._rows.messages(row))


def _entries_without_rows(table: LeafTable) -> frozenset[int]:
    """Entries of one side alone of which a row may have gone to another, where fused layers were joined."""
    if not table.joined:
        return frozenset()
    parts = {name for names in table.joined.values() for name in names[1:]}
    return frozenset(number for number, pair in enumerate(table.entries) if (pair.target or pair.golden) in parts)
