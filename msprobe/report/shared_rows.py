"""The rows of a finished comparison on their way into the reports, with the help of copies of this process.

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

from msprobe.compare.rows import RowBlock
from msprobe.compare.run import Comparison
from msprobe.core.store.atomic import make_folder
from msprobe.report.csv import Chunks, chunks
from msprobe.report.outcome import PairOptions

if TYPE_CHECKING:
    from msprobe.compare.divided.sent_rows import Report


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
    from msprobe.compare.divided.rows_apart import rows_apart  # what divides is not free

    with rows_apart(comparison, *report_of(options), options.processes) as team:
        yield Rows(comparison, options, team.blocks, team.further)


def report_of(options: PairOptions) -> tuple[Report, Path]:
    """What copies of this process make of their rows, and the folder of their files.

    Raises:
        UndividedError: the folder cannot be made; who writes the table there tells it.
    """
    from msprobe.compare.divided.own_part import UndividedError
    from msprobe.compare.divided.sent_rows import Report
    from msprobe.report.seen import Seen

    folder = Path(options.output or ".")
    try:
        make_folder(folder)
    except OSError as error:
        raise UndividedError from error
    return Report(chunks, partial(Seen, options)), folder
