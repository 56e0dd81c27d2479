"""The values of the nodes of two compared graphs as texts, made when a node is written: together they would be larger
than both dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.compare.items import leaves
from msprobe.compare.mode import Mode
from msprobe.compare.run import Comparison
from msprobe.visualize.difference_text import DifferenceTexts
from msprobe.visualize.findings import RowVerdicts
from msprobe.visualize.node import Graph, Node
from msprobe.visualize.statistic_texts import NO_PAIRS, StatisticTexts
from msprobe.visualize.value_text import NOTHING, Made, ValueTexts, fill_values, quoted, side_texts

if TYPE_CHECKING:
    from msprobe.visualize.text_maker import TextMaker

_NOT_ORDINARY = None, None
_LEVELS = ("pass", "warning", "error")


class ComparedTexts:
    """Inputs and outputs of a node as JSON, on the target side with what comparing adds."""

    def __init__(
        self, graphs: tuple[Graph, Graph], comparison: Comparison, rows: RowVerdicts, maker: TextMaker | None = None
    ) -> None:
        """``maker`` has been told to make the texts of the pairs."""
        target, golden = graphs
        self._table, self._rows, self._maker = comparison.table, rows, maker
        self._target, self._golden = target.dump.data, golden.dump.data
        self._checksums = comparison.mode is Mode.CHECKSUM
        pairs = comparison.table.float_pairs if comparison.mode is Mode.STATISTICS else NO_PAIRS
        self._ours: TextMaker | StatisticTexts = StatisticTexts(pairs) if maker is None else maker
        self._theirs = StatisticTexts(pairs, golden=True)
        self._differences = DifferenceTexts(comparison.mode, comparison.table, comparison.tensors)
        self._texts = ValueTexts(checksums=self._checksums)
        self._heads = {
            (same, level): _head(same, level, result_first=self._checksums)
            for same in (True, False)
            for level in range(len(_LEVELS))
        }
        self._starts: list[int] = comparison.table.starts.tolist()
        self._at = {pair.target: number for number, pair in enumerate(comparison.table.entries)}
        self._at_golden = {pair.golden: number for number, pair in enumerate(comparison.table.entries)}

    def of_target(self, node: Node) -> tuple[str, str]:
        """A node of the target."""
        number = self._at.get(node.name)
        if number is None or node.name not in self._target:
            return NOTHING
        start, stop = self._starts[number], self._starts[number + 1]
        values = self._table.target[start:stop]
        if node.match is None or node.match.name != self._table.entries[number].golden:
            return fill_values(node.name, (leaf for leaf in values if leaf is not None), self._texts)
        opened, ordinary = self._texts.opened, self._ours.of
        made: list[Made] = []
        for row, leaf in enumerate(values, start):
            if leaf is not None:
                numbers, difference = ordinary(row) or _NOT_ORDINARY
                made.append((leaf, opened(leaf, numbers), "," + self._fields(row, difference)))
        return side_texts(node.name, made)

    def of_golden(self, node: Node) -> tuple[str, str]:
        """A node of the golden run. Values that rows took to other entries are read from its dump."""
        if node.name not in self._golden:
            return NOTHING
        number = self._at_golden.get(node.name)
        in_order = number is None or bool(self._table.foreign) or self._table.alike[number]
        ready = self._maker.golden(node.name) if self._maker is not None and in_order else None
        if ready is not None:
            return ready
        if number is None or self._table.foreign:
            return fill_values(node.name, leaves(node.name, self._golden[node.name]), self._texts)
        start, stop = self._starts[number], self._starts[number + 1]
        opened, ordinary = self._texts.opened, self._theirs.of
        made: list[Made] = []
        for row, leaf in enumerate(self._table.golden[start:stop], start):
            if leaf is not None:
                made.append((leaf, opened(leaf, (ordinary(row) or _NOT_ORDINARY)[0]), ""))
        return side_texts(node.name, made)

    def _fields(self, row: int, difference: str | None) -> str:
        ours, theirs = self._table.target[row], self._table.golden[row]
        left, right = ours[2] if ours is not None else None, theirs[2] if theirs is not None else None
        same = (left.get("requires_grad") if type(left) is dict else None) == (
            right.get("requires_grad") if type(right) is dict else None
        )
        head = self._heads[same, self._rows.levels[row]]
        messages = self._rows.messages.get(row)
        tail = f'{head}"[]"' if messages is None else head + quoted(f"[{', '.join(map(quoted, messages))}]")
        if difference is None:
            difference = self._differences.of(row)
        return f"{difference},{tail}" if difference else tail


def _head(same: bool, level: int, *, result_first: bool) -> str:
    """What stands before the messages of a row."""
    consistent, result = f'"Requires_grad Consistent":"{same}"', f'"Result":"{_LEVELS[level]}"'
    first, second = (result, consistent) if result_first else (consistent, result)
    return f'{first},{second},"Err_message":'
