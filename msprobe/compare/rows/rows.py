"""Rows of the result table, one per pair of leaves, made as columns: a block of consecutive entries at a time.

Numbers stay numbers here; the writers of ``msprobe.report`` format them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from msprobe.compare.inputs.mode import Mode
from msprobe.compare.records.source_lines import source_line
from msprobe.compare.rows.cells import CellMaker, RowCells, Tensors, entry_blocks
from msprobe.compare.rows.columns import METRICS, Column, NumberColumn, TextColumn, distinct_column, text_column
from msprobe.compare.rows.explanations import Differences, Explained, Reasons
from msprobe.compare.rows.levels import LEVEL_NAMES, RowLevels
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import Leaf
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.verdict import Ints, Judged, Measured, RowKind
from msprobe.trace.leaves import data_name

if TYPE_CHECKING:
    from msprobe.numerics.reference_policy import ReferenceRows

Messages = Sequence[str]
_LEVEL_NUMBERS = {name: number for number, name in enumerate(LEVEL_NAMES)}
_NO_LEAF = Leaf("", "", None)


class CompareRow(NamedTuple):
    """One row: names, level, messages, and ``cells``, one per column: numbers, percentages as texts (``12.5%``), and
    texts."""

    target: str
    golden: str
    cells: list[Cell]
    level: str
    messages: Messages


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Consecutive rows.

    Attributes:
        columns: one per title of the table, in order.
        levels: a number of ``Level`` per row.
        messages: why each row is not a pass; empty for most.
    """

    columns: Sequence[Column]
    levels: Ints
    messages: Sequence[Messages]

    def __len__(self) -> int:
        return len(self.levels)

    def level_names(self) -> list[str]:
        """Return ``pass``, ``warning`` or ``error`` for every row."""
        return [LEVEL_NAMES[level] for level in self.levels.tolist()]

    def rows(self) -> Iterator[CompareRow]:
        """Yield the rows one by one."""
        cells = zip(*(column.cells() for column in self.columns), strict=True)
        for row, level, messages in zip(cells, self.level_names(), self.messages, strict=True):
            yield CompareRow(str(row[0]), str(row[1]), list(row), level, messages)


Chunks = Iterator[tuple[int, bytes]]
"""Numbers of rows, and these rows as text."""
RowWriter = Callable[[Iterable[RowBlock], int], Chunks]
"""Makes texts of blocks of rows, of which the first row has this number in the whole table."""


class RowSource(NamedTuple):
    """What the rows of one comparison are made from.

    Attributes:
        dump: the target.
        golden: the golden run.
        metrics: the number of custom metrics, whose columns come last.
        cells: makes the columns before any verdict.
    """

    dump: Dump
    golden: Dump
    mode: Mode
    table: LeafTable
    levels: RowLevels
    judged: Judged
    differences: Differences | Measured
    cells: CellMaker
    tensors: Tensors = None
    metrics: int = 0


class RowMaker:
    """Makes the rows of one comparison; holds what all rows share."""

    def __init__(self, source: RowSource) -> None:
        self._dump, self._golden, self._mode, self._table = source.dump, source.golden, source.mode, source.table
        self._tensors, self._judged, self._levels = source.tensors, source.judged, source.levels
        self._cells = source.cells
        self._reasons = Reasons(source.differences, source.judged)
        self._explained = Explained(source.mode, source.table, source.judged, source.tensors)
        self._metrics = source.metrics
        self._stack_texts: dict[int, str] = {}
        self._lines_differ: dict[tuple[int, int], bool] = {}

    def blocks(self, entries: range | None = None, *, reference: bool) -> Iterator[RowBlock]:
        """Yield the rows of these consecutive entries, or of all; ``reference`` judges them by the published rules."""
        starts = self._table.starts
        first, end = (0, len(self._table.entries)) if entries is None else (entries.start, entries.stop)
        for block in entry_blocks(starts, first, end):
            yield self._block(*block, reference)

    def _block(self, first: int, last: int, reference: bool) -> RowBlock:
        cells = self._cells.cells(first, last)
        start, stop = int(self._table.starts[first]), int(self._table.starts[last])
        levels = self._levels.levels[start:stop]
        messages = self._messages(first, last)
        if reference:
            levels = self._apply_reference(first, last, cells, messages)
        columns: list[Column] = [*cells.names, *cells.kinds, *cells.metrics, cells.consistent]
        columns += [TextColumn(levels, LEVEL_NAMES), _message_column(messages)]
        if self._dump.has_stacks:
            columns.append(self._stacks(first, last, self._target_frames(first, last)))
        if self._mode is Mode.TENSOR:
            columns.append(self._files(start, stop))
        words = self._cells.words
        if not reference:
            columns += self._explained.columns(start, stop, words)
            if self._dump.has_stacks:
                columns.append(self._stacks(first, last, self._golden_frames(first, last)))
        columns += self._explained.custom(start, stop, self._metrics, words)
        return RowBlock(columns, levels, messages)

    # Verdicts

    def _messages(self, first: int, last: int) -> list[Messages]:
        """Return the messages of each row of some entries, without the rules of a policy."""
        start, stop = int(self._table.starts[first]), int(self._table.starts[last])
        numbers, kinds = self._levels.levels[start:stop], self._judged.kind[start:stop]
        messages: list[Messages] = [()] * (stop - start)
        bulk = (numbers > 0) & (kinds == RowKind.VALUE) & (self._tensors is None)
        offsets = bulk.nonzero()[0]
        for offset, reason in zip(offsets.tolist(), self._reasons.of_values(offsets + start), strict=True):
            messages[offset] = (f"{LEVEL_NAMES[numbers[offset]]}: {reason}",)
        target, golden = self._table.target, self._table.golden
        for offset in ((numbers > 0) & ~bulk).nonzero()[0].tolist():
            row = start + offset
            tensor = self._tensors[row] if self._tensors is not None else None
            problem = tensor.problem if tensor is not None else ""
            reason = problem or self._reasons.text(int(kinds[offset]), row, target[row], golden[row])
            messages[offset] = (f"{LEVEL_NAMES[numbers[offset]]}: {reason}",)
        for row, notes in self._explained.notes(start, stop):
            messages[row - start] = (*messages[row - start], *notes)
        for number in range(first, last) if self._levels.overrides else ():
            override = self._levels.overrides.get(number)
            if override is not None and override.message:
                for row in override.rows:
                    messages[row - start] = (override.message,)
        return messages

    def _apply_reference(self, first: int, last: int, cells: RowCells, messages: list[Messages]) -> Ints:
        """Judge the entries by the published rules: return the levels of all rows, and set their messages."""
        from msprobe.numerics.reference_policy import judge_entry  # the rules of one policy

        start, stop = int(self._table.starts[first]), int(self._table.starts[last])
        levels = self._levels.levels[start:stop].copy()
        rows = self._reference_rows(start, stop, cells)
        for number in range(first, last):
            if number in self._levels.overrides:
                continue
            pair = self._table.entries[number]
            own = range(int(self._table.starts[number]) - start, int(self._table.starts[number + 1]) - start)
            judged = judge_entry(self._mode.value, pair.target or pair.golden or "", rows, own)
            for row, (level, texts) in zip(own, judged, strict=True):
                levels[row], messages[row] = _LEVEL_NUMBERS[level], texts
        return levels

    def _reference_rows(self, start: int, stop: int, cells: RowCells) -> ReferenceRows:
        from msprobe.numerics.reference_policy import ReferenceRows, checksum_rows, number_rows

        target, golden = self._table.target[start:stop], self._table.golden[start:stop]
        outputs = [(left or right or _NO_LEAF).slot == "output" for left, right in zip(target, golden, strict=True)]
        matched = [left is not None and right is not None for left, right in zip(target, golden, strict=True)]
        names = list(map(str, cells.names[0].cells())), list(map(str, cells.names[1].cells()))
        kinds = list(zip(*([str(cell) for cell in column.cells()] for column in cells.kinds), strict=True))
        rows = ReferenceRows(outputs, matched, *names, kinds)
        if self._mode is Mode.CHECKSUM:
            return checksum_rows(rows, *([str(cell) for cell in column.cells()] for column in cells.metrics))
        titles = METRICS[self._mode]
        numbers = [column for column in cells.metrics if isinstance(column, NumberColumn)]
        return number_rows(rows, dict(zip(titles, numbers, strict=False)), numbers[len(titles) :])

    # Columns after the verdict

    def _stacks(self, first: int, last: int, stacks: Sequence[list[str] | None]) -> TextColumn:
        """Return the stacks of one side, one per entry, each in the first row of its entry."""
        words = ["N/A"]
        index = np.zeros(int(self._table.starts[last] - self._table.starts[first]), np.int64)
        numbers: dict[int, int] = {}
        starts = (self._table.starts[first : last + 1] - self._table.starts[first]).tolist()
        for frames, start, stop in zip(stacks, starts, starts[1:], strict=False):
            if frames and stop > start:
                number = numbers.get(id(frames))
                if number is None:
                    number = numbers[id(frames)] = len(words)
                    words.append(self._stack_texts.get(id(frames)) or self._stack_text(frames))
                index[start] = number
        return TextColumn(index, words)

    def _target_frames(self, first: int, last: int) -> list[list[str] | None]:
        """Return the stack of each entry in the target."""
        return [self._dump.stacks.get(pair.target or "") for pair in self._table.entries[first:last]]

    def _golden_frames(self, first: int, last: int) -> list[list[str] | None]:
        """Return the stack of each entry in the golden run, where the target lacks the call or makes it in another
        line; most entries have none."""
        target, golden, entries = self._dump.stacks, self._golden.stacks, self._table.entries[first:last]
        stacks = [(target.get(pair.target or ""), golden.get(pair.golden or "")) for pair in entries]
        return [None if ours == frames else self._other_frames(ours, frames) for ours, frames in stacks]

    def _other_frames(self, ours: list[str] | None, frames: list[str] | None) -> list[str] | None:
        """Return the stack of the golden run, or None where the target makes the call in the same line."""
        if ours is None or not frames:
            return frames
        key = id(ours), id(frames)
        differ = self._lines_differ.get(key)
        if differ is None:
            differ = self._lines_differ[key] = source_line(ours) != source_line(frames)
        return frames if differ else None

    def _stack_text(self, frames: list[str]) -> str:
        text = self._stack_texts[id(frames)] = str(frames)
        return text

    def _files(self, start: int, stop: int) -> TextColumn:
        sides = zip(self._table.target[start:stop], self._table.golden[start:stop], strict=True)
        return distinct_column([str([_file(left), _file(right)]) for left, right in sides])


def _message_column(messages: Sequence[Messages]) -> TextColumn:
    return text_column([_json(own) if own else "[]" for own in messages])


def _json(messages: Messages) -> str:
    return f"[{_quoted(messages[0]) if len(messages) == 1 else ', '.join(map(_quoted, messages))}]"


def _file(leaf: Leaf | None) -> str:
    return "N/A" if leaf is None else data_name(leaf.raw) or "-1"
