"""A pair of dumps shared by several processes, each of which writes the rows of its part.

The rows of a finished comparison on their way into the reports, with the help of copies of this process.

For pairs that one process has to read, align and judge (see ``divided`` for the others): making rows and their text is
half of the work, and nothing in it looks at another row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compare.comparison import Comparison, StepHistory
from msprobe.compare.rows.rows import RowBlock
from msprobe.core.store.reader import Place
from msprobe.core.store.safe_files import make_folder
from msprobe.report.csv_table import Chunks, chunks
from msprobe.report.rank_outcome import PairOptions

if TYPE_CHECKING:
    from msprobe.compare.workers.row_workers import Report


def _nothing(_take: object) -> Chunks:
    return iter(())


@dataclass(frozen=True, slots=True)
class Rows:
    """``blocks`` are those that this process makes; ``further`` are the texts of those behind them, made by others
    (see ``divided.sent_rows``)."""

    comparison: Comparison
    options: PairOptions
    blocks: Callable[[], Iterator[RowBlock]]
    further: Callable[..., Chunks] = _nothing


@contextmanager
def shared_rows(comparison: Comparison, options: PairOptions) -> Iterator[Rows]:
    """The rows, made by ``options.processes`` processes.

    Raises:
        UndividedError: one process has to make all of them.
        LostError: a process is gone.
    """
    from msprobe.compare.workers.row_workers import rows_apart  # what divides is not free

    with rows_apart(comparison, *report_of(options), options.processes) as team:
        yield Rows(comparison, options, team.blocks, team.further)


def report_of(options: PairOptions) -> tuple[Report, Path]:
    """What copies of this process make of their rows, and the folder of their files.

    Raises:
        UndividedError: the folder cannot be made; who writes the table there tells it.
    """
    from msprobe.compare.workers.partial_compare import UndividedError
    from msprobe.compare.workers.row_workers import Report
    from msprobe.jobs.row_observer import Seen

    folder = Path(options.output or ".")
    try:
        make_folder(folder)
    except OSError as error:
        raise UndividedError from error
    return Report(chunks, partial(Seen, options)), folder


@contextmanager
def divided(places: tuple[Place, Place], options: PairOptions, history: StepHistory) -> Iterator[Rows]:
    """The pair, compared by ``options.processes`` processes.

    Raises:
        UndividedError: it is to be compared by one process.
        LostError: a process is gone.
    """
    from msprobe.compare.workers.compare_workers import team

    report, folder = report_of(options)
    with team(places, options.policy, history, folder, processes=options.processes, report=report) as found:
        yield Rows(found.comparison, options, found.blocks, found.further)
