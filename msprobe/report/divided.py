"""A pair of dumps shared by several processes, each of which writes the csv lines of its part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msprobe.compare.divided.channel import LostError
from msprobe.compare.divided.own_part import UndividedError
from msprobe.compare.divided.team import Team, team
from msprobe.compare.run import Past
from msprobe.core.store.atomic import make_folder
from msprobe.core.store.reader import Place
from msprobe.report.csv import chunks
from msprobe.report.outcome import PairOptions

__all__ = ["LostError", "UndividedError", "divided"]


@contextmanager
def divided(places: tuple[Place, Place], past: Past, options: PairOptions) -> Iterator[Team]:
    """The pair, compared by ``options.processes`` processes.

    Raises:
        UndividedError: it is to be compared by one process.
        LostError: a process is gone.
    """
    folder = Path(options.output or ".")
    try:
        make_folder(folder)
    except OSError as error:  # told by who writes the table
        raise UndividedError from error
    with team(places, options.policy, past, folder, processes=options.processes, write=chunks) as found:
        yield found
