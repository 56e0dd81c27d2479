"""What reports need of the rows beside the result table, collected on the way of the rows into it.

That is the level of each, the entries that failed, and the columns of the HTML page. Processes that share a pair
collect what their own rows say; it is put together in the order of the rows.

One line of the log per compared value, for those who follow a comparison on the screen (``-tensor_log``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.rows.levels import LEVEL_NAMES
from msprobe.compare.rows.rows import RowBlock
from msprobe.compare.table.table import LeafTable
from msprobe.core.log import logger
from msprobe.report.rank_outcome import Failure, PairOptions

if TYPE_CHECKING:
    from msprobe.compare.workers.fork_channel import Arrays
    from msprobe.report.html.packed_table import PageTable

MOST_FAILURES = 1000


class RowObserver:
    """Collects from blocks of rows what reports need.

    ``levels`` has a word per row, ``failures`` the first entries with an error, of which ``failed`` is the number;
    ``page`` is there where a page is wanted.
    """

    def __init__(
        self, options: PairOptions, table: LeafTable, mode: Mode, columns: Sequence[str], start: int = 0
    ) -> None:
        """``start`` is the number of the first row in ``table``, ``columns`` are the titles of the result table."""
        self.levels: list[str] = []
        self.failures: list[Failure] = []
        self.failed = 0
        self.page: PageTable | None = None
        self._row, self._last = start, -1
        self._table, self._entries = table, table.entry_of_row() if options.failures else None
        if options.pages is not None:
            from msprobe.report.html.packed_table import PageTable  # packs and types cells, which few want

            self.page = PageTable(columns)

    def through(self, blocks: Iterable[RowBlock]) -> Iterator[RowBlock]:
        """The blocks, each looked at on its way."""
        for block in blocks:
            if self._entries is not None:
                self._note(block, self._entries[self._row : self._row + len(block)].tolist())
            if self.page is not None:
                self.page.add(block)
            self.levels.extend(block.level_names())
            self._row += len(block)
            yield block

    def _note(self, block: RowBlock, entries: Sequence[int]) -> None:
        """Rows of an entry follow each other, so one that failed before is the last one."""
        for level, entry, messages in zip(block.level_names(), entries, block.messages, strict=True):
            if level != "error" or entry == self._last:
                continue
            if len(self.failures) < MOST_FAILURES:
                pair = self._table.entries[entry]
                self.failures.append(Failure(pair.sided, "; ".join(map(str, messages))))
            self._last = entry
            self.failed += 1

    def serialize(self) -> tuple[Any, Arrays]:
        """Return what was collected, for another process: a head of JSON values, and arrays."""
        numbers = {name: number for number, name in enumerate(LEVEL_NAMES)}
        levels = np.array([numbers[level] for level in self.levels], np.int8)
        failures = [(one.name, one.message) for one in self.failures]
        page, arrays = ([], {}) if self.page is None else self.page.serialize()
        return [failures, self.failed, page], {**arrays, "levels": levels}

    def merge(self, head: Any, arrays: Arrays) -> None:
        """Add what another process serialized about the rows that follow."""
        failures, failed, page = head
        self.levels += [LEVEL_NAMES[level] for level in arrays["levels"].tolist()]
        self.failures += [Failure(*one) for one in failures[: MOST_FAILURES - len(self.failures)]]
        self.failed += failed
        if self.page is not None:
            self.page.merge(page, arrays)


_HEAD = 8  # names and kinds come before the metrics
_AFTER_METRICS = ("NPU max", "Requires_grad Consistent")


def log_items(comparison: Comparison) -> None:
    """Log name, metrics and verdict of every row."""
    titles = comparison.columns
    end = min(titles.index(title) for title in _AFTER_METRICS if title in titles)
    for row in comparison.rows():
        shown = zip(titles[_HEAD:end], row.cells[_HEAD:end], strict=True)
        metrics = ", ".join(f"{title} {value}" for title, value in shown)
        name = row.golden if row.target == "N/A" else row.target
        logger.info("[%s] Compare result: %s, Result %s", name, metrics, row.level)
