"""Rows of the result table, one per pair of leaves, with cells in the text forms that existing readers know.

Rows are made a block of entries at a time, so that verdicts, texts and files can work on columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING

import numpy as np

from msprobe.compare.cells import CellMaker, Cells, Tensors, data_name
from msprobe.compare.explained import Explained
from msprobe.compare.items import Leaf
from msprobe.compare.levels import LEVEL_NAMES, RowLevels
from msprobe.compare.mode import Mode
from msprobe.compare.reasons import Differences, Reasons
from msprobe.compare.table import LeafTable
from msprobe.core.store.reader import Dump
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.verdict import Judged

if TYPE_CHECKING:
    from msprobe.numerics.reference_policy import ReferenceRow

Messages = Sequence[str]
_BLOCK = 2048  # rows whose texts stay in the cache of the processor
_NO_LEAF = Leaf("", "", None)


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One row: names, level, messages, and ``cells``, one per column. Infinities are floats, the rest is as shown."""

    target: str
    golden: str
    cells: list[Cell]
    level: str
    messages: Messages


@dataclass(slots=True)
class RowBlock:
    """Consecutive rows by part, one item per row each.

    ``cells`` are names, kinds, metrics and statistics, ``tails`` the columns after them.
    """

    cells: Cells
    levels: list[str]
    messages: list[Messages]
    tails: list[Sequence[Cell]]

    def __len__(self) -> int:
        return len(self.cells.targets)

    def rows(self) -> Iterator[CompareRow]:
        """The rows one by one."""
        parts = zip(*self.cells, zip(*self.tails, strict=True), self.levels, self.messages, strict=True)
        for target, golden, kinds, middle, tail, level, messages in parts:
            numbers = middle.split(",") if isinstance(middle, str) else middle
            yield CompareRow(target, golden, [target, golden, *kinds, *numbers, *tail], level, messages)


@dataclass(frozen=True, slots=True)
class RowSource:
    """What the rows of one comparison are made from: ``dump`` is the target, ``metrics`` is the number of custom
    metrics, whose columns come last."""

    dump: Dump
    mode: Mode
    table: LeafTable
    levels: RowLevels
    judged: Judged
    measured: Differences
    tensors: Tensors = None
    metrics: int = 0


class RowMaker:
    """Makes the rows of one comparison; holds what all rows share."""

    def __init__(self, source: RowSource) -> None:
        self._dump, self._mode, self._table = source.dump, source.mode, source.table
        self._tensors, self._judged, self._levels = source.tensors, source.judged, source.levels
        self._cells = CellMaker(source.mode, source.table, source.tensors)
        self._reasons = Reasons(source.measured, source.judged)
        self._explained = Explained(source.mode, source.table, source.judged, source.tensors)
        self._metrics = source.metrics
        self._frames: dict[int, str] = {}

    def blocks(self, entries: range | None = None, *, reference: bool) -> Iterator[RowBlock]:
        """The rows of these consecutive entries, or of all; ``reference`` judges them by the published rules."""
        starts = self._table.starts
        first, end = (0, len(self._table.entries)) if entries is None else (entries.start, entries.stop)
        while first < end:
            last = int(np.searchsorted(starts, starts[first] + _BLOCK, side="right")) - 1
            last = min(max(last, first + 1), end)
            yield self._block(first, last, reference)
            first = last

    def _block(self, first: int, last: int, reference: bool) -> RowBlock:
        cells = self._cells.cells(first, last)
        levels, messages = self._default(first, last)
        if reference:
            self._apply_reference(first, last, cells, (levels, messages))
        texts = [_json(found) if found else "[]" for found in messages]
        tails: list[Sequence[Cell]] = [["True" if ours == theirs else "False" for *_, ours, theirs in cells.kinds]]
        tails += levels, texts
        if self._dump.has_stacks:
            tails.append(self._stacks(first, last))
        if self._mode is Mode.TENSOR:
            tails.append(self._files(first, last))
        if not reference:
            tails += self._explained.columns(first, last)
        tails += self._explained.custom(first, last, self._metrics)
        return RowBlock(cells, levels, messages, tails)

    # Verdicts

    def _default(self, first: int, last: int) -> tuple[list[str], list[Messages]]:
        """Return the level and the messages of each row of some entries, without the rules of a policy."""
        start, stop = int(self._table.starts[first]), int(self._table.starts[last])
        numbers = self._levels.levels[start:stop]
        levels = [LEVEL_NAMES[number] for number in numbers.tolist()]
        messages: list[Messages] = [()] * (stop - start)
        target, golden, kinds = self._table.target, self._table.golden, self._judged.kind[start:stop].tolist()
        for offset in numbers.nonzero()[0].tolist():
            row = start + offset
            tensor = self._tensors[row] if self._tensors is not None else None
            problem = tensor.problem if tensor is not None else ""
            reason = problem or self._reasons.text(kinds[offset], row, target[row], golden[row])
            messages[offset] = (f"{levels[offset]}: {reason}",)
        for row, notes in self._explained.notes(start, stop):
            messages[row - start] = (*messages[row - start], *notes)
        for number in range(first, last) if self._levels.excuses else ():
            excuse = self._levels.excuses.get(number)
            if excuse is not None and excuse.message:
                for row in excuse.rows:
                    messages[row - start] = (excuse.message,)
        return levels, messages

    def _apply_reference(
        self,
        first: int,
        last: int,
        cells: Cells,
        found: tuple[list[str], list[Messages]],
    ) -> None:
        from msprobe.numerics.reference_policy import judge_entry  # the rules of one policy

        levels, messages = found
        start = int(self._table.starts[first])
        for number in range(first, last):
            pair = self._table.entries[number]
            if number in self._levels.excuses:
                continue
            rows = range(int(self._table.starts[number]), int(self._table.starts[number + 1]))
            described = [self._reference_row(row, cells, row - start) for row in rows]
            judged = judge_entry(self._mode.value, pair.target or pair.golden or "", described)
            for row, (level, texts) in zip(rows, judged, strict=True):
                levels[row - start], messages[row - start] = level, texts

    def _reference_row(self, row: int, cells: Cells, at: int) -> ReferenceRow:
        from msprobe.numerics.reference_policy import ReferenceRow

        ours, theirs = self._table.target[row], self._table.golden[row]
        middle = cells.middles[at]
        numbers = middle.split(",") if isinstance(middle, str) else middle
        return ReferenceRow(
            output=(ours or theirs or _NO_LEAF).slot == "output",
            matched=ours is not None and theirs is not None,
            cells=[cells.targets[at], cells.goldens[at], *cells.kinds[at], *numbers],
        )

    # Columns after the verdict

    def _stacks(self, first: int, last: int) -> list[Cell]:
        found: list[Cell] = []
        counts = np.diff(self._table.starts[first : last + 1]).tolist()
        for pair, rows in zip(self._table.entries[first:last], counts, strict=True):
            target = pair.target
            frames = self._dump.stacks.get(target) if target is not None and rows else None
            if frames:
                text = self._frames.get(id(frames))
                if text is None:
                    text = self._frames[id(frames)] = str(frames)
                found.append(text)
                rows -= 1
            found.extend(["N/A"] * rows)
        return found

    def _files(self, first: int, last: int) -> list[Cell]:
        rows = range(int(self._table.starts[first]), int(self._table.starts[last]))
        return [str([_file(self._table.target[row]), _file(self._table.golden[row])]) for row in rows]


def _json(messages: Messages) -> str:
    return f"[{_quoted(messages[0]) if len(messages) == 1 else ', '.join(map(_quoted, messages))}]"


def _file(leaf: Leaf | None) -> str:
    return "N/A" if leaf is None else data_name(leaf.raw) or "-1"
