"""A pair of dumps shared by several processes, each of which writes the rows of its part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msprobe.compare.divided.channel import LostError
from msprobe.compare.divided.own_part import UndividedError
from msprobe.compare.divided.team import team
from msprobe.compare.run import Past
from msprobe.core.store.reader import Place
from msprobe.report.outcome import PairOptions
from msprobe.report.shared_rows import Rows, report_of

__all__ = ["LostError", "UndividedError", "divided"]


@contextmanager
def divided(places: tuple[Place, Place], options: PairOptions, past: Past) -> Iterator[Rows]:
    """The pair, compared by ``options.processes`` processes.

    Raises:
        UndividedError: it is to be compared by one process.
        LostError: a process is gone.
    """
    report, folder = report_of(options)
    with team(places, options.policy, past, folder, processes=options.processes, report=report) as found:
        yield Rows(found.comparison, options, found.blocks, found.further)
