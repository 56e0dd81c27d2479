"""The rows of a finished comparison, made by this process and copies of it.

A copy has all that was read and judged, without reading it: it shares the memory, except for what it looks at, because
Python counts references in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from msprobe.compare.divided.channel import Channel
from msprobe.compare.divided.forked import Forked, end_now
from msprobe.compare.divided.own_part import UndividedError
from msprobe.compare.divided.sent_rows import Chunks, Report, Take, received_rows, send_rows
from msprobe.compare.rows import RowBlock
from msprobe.compare.run import Comparison


@dataclass(frozen=True, slots=True)
class RowTeam:
    """``blocks`` are the rows of the first entries, ``further`` those of all others as text."""

    _comparison: Comparison
    _entries: range
    _others: Sequence[Channel]

    def blocks(self) -> Iterator[RowBlock]:
        """The rows that this process makes."""
        return self._comparison.blocks(self._entries)

    def further(self, take: Take) -> Chunks:
        """The text of the rows behind them; ``take`` goes on with what was seen of them.

        Raises:
            LostError: a process is gone.
        """
        return received_rows(self._others, take)


@contextmanager
def rows_apart(comparison: Comparison, report: Report, folder: Path, processes: int) -> Iterator[RowTeam]:
    """Share the rows with copies of this process, which end with the ``with`` block; their files lie in ``folder``.

    Raises:
        UndividedError: there is no room for a process or its files.
    """
    first, *rest = _ranges(comparison, processes)
    with ExitStack() as stack:
        others = []
        for entries in rest:
            try:
                other = Forked(partial(_make_rows, comparison, entries, report), folder)
            except OSError as error:
                raise UndividedError from error
            stack.callback(other.end)
            others.append(other.channel)
        yield RowTeam(comparison, first, others)


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
    end_now()
