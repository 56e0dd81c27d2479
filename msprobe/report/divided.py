"""A pair of dumps shared by several processes, each of which writes the rows of its part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msprobe.compare.divided.channel import LostError
from msprobe.compare.divided.own_part import UndividedError
from msprobe.compare.divided.sent_rows import Report
from msprobe.compare.divided.team import team
from msprobe.compare.run import Past
from msprobe.core.store.atomic import make_folder
from msprobe.core.store.reader import Place
from msprobe.report.outcome import PairOptions
from msprobe.report.row_writer import row_writer
from msprobe.report.seen import Seen
from msprobe.report.shared_rows import Rows

__all__ = ["LostError", "UndividedError", "divided"]


@contextmanager
def divided(places: tuple[Place, Place], options: PairOptions, past: Past) -> Iterator[Rows]:
    """The pair, compared by ``options.processes`` processes.

    Raises:
        UndividedError: it is to be compared by one process.
        LostError: a process is gone.
        MsprobeException: xlsxwriter is wanted and not installed.
    """
    folder = Path(options.output or ".")
    try:
        make_folder(folder)
    except OSError as error:  # told by who writes the table
        raise UndividedError from error
    report = Report(row_writer(options), partial(Seen, options))
    with team(places, options.policy, past, folder, processes=options.processes, report=report) as found:
        yield Rows(found.comparison, options, found.blocks, found.further)
