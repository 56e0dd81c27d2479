"""The rows of a comparison, made by several processes: their text, and what a watch collects from them.

``part_blocks`` makes the rows of a part that this process has read, from the ``Verdicts`` that the concluding process
sliced for it. ``rows_apart`` shares the rows of a comparison that one process has finished: a copy of it has all that
was read and judged without reading it. It shares the memory, except for what it looks at, because Python counts
references in it. In both cases ``send_rows`` sends the text of the rows and what was collected from them to the first
process, which reads both with ``received_rows``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.rows.cells import CellMaker
from msprobe.compare.rows.explanations import Differences, differences_of
from msprobe.compare.rows.levels import row_levels
from msprobe.compare.rows.rows import Chunks, RowBlock, RowMaker, RowSource, RowWriter
from msprobe.compare.table.table import LeafTable
from msprobe.compare.workers.fork_channel import Arrays, Channel, exit_worker, worker_pool
from msprobe.compare.workers.partial_compare import LocalPart
from msprobe.numerics.verdict import Judged

_SMALL = ("level", "kind")  # a byte holds them
_JUDGED = ("times", "tolerance")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the rows of a part, the first of which has the number ``first`` in the whole table, need to be written.

    ``as_floats`` says which statistics columns of the whole table show integers as floats.
    """

    first: int
    as_floats: tuple[bool, ...]
    judged: Judged
    differences: Differences

    def send(self, channel: Channel) -> None:
        """Send the verdicts to the other process."""
        arrays = {name: getattr(self.judged, name).astype(np.int8) for name in _SMALL}
        arrays.update((name, getattr(self.judged, name)) for name in _JUDGED)
        arrays.update((name, getattr(self.differences, name)) for name in Differences._fields)
        channel.send([self.first, self.as_floats], arrays)


def verdicts_of(comparison: Comparison, first: int, last: int, as_floats: tuple[bool, ...]) -> Verdicts:
    """Return the verdicts of the rows [first, last)."""
    rows = slice(first, last)
    return Verdicts(first, as_floats, comparison.judged.sliced(rows), differences_of(comparison.measured, rows))


def received_verdicts(head: Sequence[Any], arrays: Arrays) -> Verdicts:
    """Return the verdicts that were sent."""
    level, kind = (arrays[name].astype(np.int64) for name in _SMALL)
    times, tolerance = (arrays[name] for name in _JUDGED)
    differences = Differences(*(arrays[name] for name in Differences._fields))
    return Verdicts(head[0], tuple(head[1]), Judged(level, kind, 0.0, times, tolerance), differences)


def part_cells(own: LocalPart, as_floats: Sequence[bool]) -> CellMaker:
    """Return what makes the columns of a part that need no verdict; ``as_floats`` as in ``Verdicts``."""
    return CellMaker(own.summary.mode, own.table, None, as_floats)


def part_blocks(own: LocalPart, verdicts: Verdicts, cells: CellMaker, policy: Policy) -> Iterator[RowBlock]:
    """Yield the rows of a part; see ``Comparison.blocks``."""
    levels = row_levels(own.table, verdicts.judged, policy)
    source = RowSource(
        own.target,
        own.golden,
        own.summary.mode,
        own.table,
        levels,
        verdicts.judged,
        verdicts.differences,
        cells,
    )
    return RowMaker(source).blocks(reference=policy is Policy.REFERENCE)


class Watch(Protocol):
    """Looks at rows on their way into the table; ``serialize`` returns what was seen, in a form that can be sent."""

    def through(self, blocks: Iterable[RowBlock]) -> Iterator[RowBlock]: ...
    def serialize(self) -> tuple[Any, Arrays]: ...


MakeWatch = Callable[[LeafTable, Mode, Sequence[str], int], Watch]
"""Makes one from a table, its mode, the titles of the result, and the number in the table of the first row to come."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is made of rows: their text, and what is seen of them."""

    write: RowWriter
    watch: MakeWatch


Take = Callable[[Any, Arrays], None]
"""Goes on with what a watch has told."""


def send_rows(channel: Channel, blocks: Iterable[RowBlock], first: int, write: RowWriter, watch: Watch) -> None:
    """Write the rows, of which the first has the number ``first`` in the whole table."""
    places: list[Any] = [(rows, channel.write(text), len(text)) for rows, text in write(watch.through(blocks), first)]
    head, arrays = watch.serialize()
    channel.send([places, head], arrays)


def received_rows(channels: Sequence[Channel], take: Take) -> Chunks:
    """The texts that other processes sent, one after the other, each after what its watch told.

    Raises:
        LostError: a process is gone.
    """
    for channel in channels:
        (places, head), arrays = channel.receive()
        take(head, arrays)
        for rows, at, size in places:
            yield rows, channel.read(at, size)


@dataclass(frozen=True, slots=True)
class RowWorkers:
    """The rows of a comparison by several processes: ``blocks`` makes those of the first part, ``further`` gives those
    behind as text. Records and leaves in parts of others are read here when somebody asks the comparison for them."""

    comparison: Comparison
    blocks: Callable[[], Iterator[RowBlock]]
    _others: Sequence[Channel]

    def further(self, take: Take) -> Chunks:
        """The text of the rows behind the first part; ``take`` goes on with what was seen of them.

        Raises:
            LostError: a process is gone.
        """
        return received_rows(self._others, take)


@contextmanager
def rows_apart(comparison: Comparison, report: Report, folder: Path, processes: int) -> Iterator[RowWorkers]:
    """Share the rows with copies of this process, which end with the ``with`` block; their files lie in ``folder``.

    Raises:
        UndividedError: there is no room for a process or its files.
    """
    first, *rest = _ranges(comparison, processes)
    with worker_pool([partial(_make_rows, comparison, entries, report) for entries in rest], folder) as others:
        yield RowWorkers(comparison, partial(comparison.blocks, first), others)


def _ranges(comparison: Comparison, processes: int) -> list[range]:
    """Entries in their order, with about as many rows for each process."""
    starts, entries = comparison.table.starts, len(comparison.table.entries)
    wanted = np.arange(1, processes) * (int(starts[-1]) / processes)
    cuts = [0, *np.minimum(np.searchsorted(starts, wanted), entries).tolist(), entries]
    return [range(first, last) for first, last in pairwise(cuts)]


def _make_rows(comparison: Comparison, entries: range, report: Report, channel: Channel) -> None:
    first = int(comparison.table.starts[entries.start])
    watch = report.watch(comparison.table, comparison.mode, comparison.columns, first)
    send_rows(channel, comparison.blocks(entries), first, report.write, watch)
    exit_worker()
