"""The rows of a pair of dumps on their way into the reports, made with the help of copies of this process.

``split_compare`` is for large pairs that need no look at all records: each process reads a part of both dumps and makes
its rows. ``shared_rows`` is for pairs that one process has to read, align and judge: making rows and their text is half
of the work, and no row depends on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msprobe.compare.comparison import Comparison, StepHistory
from msprobe.compare.rows.rows import Chunks, RowBlock, RowWriter
from msprobe.core.store.reader import Place
from msprobe.core.store.safe_files import make_folder
from msprobe.report import csv_table
from msprobe.report.rank_outcome import PairOptions

if TYPE_CHECKING:
    from msprobe.compare.workers.row_workers import Report


def _no_further(_take: object) -> Chunks:
    return iter(())


class Rows(NamedTuple):
    """The rows of a comparison.

    Attributes:
        blocks: returns those that this process makes.
        further: returns the texts of the rows behind them, made by other processes (see ``received_rows``).
    """

    comparison: Comparison
    options: PairOptions
    blocks: Callable[[], Iterator[RowBlock]]
    further: Callable[..., Chunks] = _no_further


@contextmanager
def split_compare(places: tuple[Place, Place], options: PairOptions, history: StepHistory) -> Iterator[Rows]:
    """Compare a pair by ``options.processes`` processes and yield its rows.

    Raises:
        UndividedError: it is to be compared by one process.
        LostError: a process is gone.
    """
    from msprobe.compare.workers.compare_workers import start_compare_workers  # loaded for large pairs only

    report, folder = _row_report(options)
    processes = options.processes
    with start_compare_workers(places, options.policy, history, folder, processes=processes, report=report) as workers:
        yield Rows(workers.comparison, options, workers.blocks, workers.further)


@contextmanager
def shared_rows(comparison: Comparison, options: PairOptions) -> Iterator[Rows]:
    """Yield the rows of a finished comparison, made by ``options.processes`` processes.

    Raises:
        UndividedError: one process has to make all of them.
        LostError: a process is gone.
    """
    from msprobe.compare.workers.row_workers import rows_apart  # loaded for large pairs only

    with rows_apart(comparison, *_row_report(options), options.processes) as workers:
        yield Rows(comparison, options, workers.blocks, workers.further)


def _row_report(options: PairOptions) -> tuple[Report, Path]:
    """Return what copies of this process make of their rows, and the folder of their files.

    Raises:
        UndividedError: the folder cannot be made; the writer of the table reports that.
        MsprobeException: see ``table_format``.
    """
    from msprobe.compare.workers.fork_channel import UndividedError
    from msprobe.compare.workers.row_workers import Report
    from msprobe.jobs.row_observer import RowObserver

    folder = Path(options.output or ".")
    try:
        make_folder(folder)
    except OSError as error:
        raise UndividedError from error
    return Report(table_format(options).row_texts, partial(RowObserver, options)), folder


class TableFormat(NamedTuple):
    """How rows become a table.

    Attributes:
        row_texts: makes texts of rows.
        write_chunks: writes a table of these texts into a folder and returns its files.
    """

    row_texts: RowWriter
    write_chunks: Callable[[Path, str, Sequence[str], Chunks], list[Path]]


def table_format(options: PairOptions) -> TableFormat:
    """Return the format that the options ask for: csv files or workbooks.

    Raises:
        MsprobeException: a workbook is wanted, and xlsxwriter is not installed.
    """
    if not options.xlsx:
        return TableFormat(csv_table.chunks, csv_table.write_chunks)
    from msprobe.report import xlsx_table  # loads zipfile

    return TableFormat(xlsx_table.row_writer(), xlsx_table.write_chunks)
