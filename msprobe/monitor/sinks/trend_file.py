"""The rows of one rank, written into a trend database: ``monitor_rank{r}.trend.db``, which a viewer may follow.

Each step is one transaction: a process that is killed leaves whole steps. Every rank has a file of its own, because
ranks on several machines must not write one; ``msprobe data2db`` puts the files of all ranks together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.store.sqlite_file import DAMAGED
from msprobe.monitor.alerts.alert import Alert
from msprobe.monitor.rows import Row
from msprobe.trend.further_tables import TILE_STEPS
from msprobe.trend.growing import GrowingDatabase, Mark, Point

NAME: Final = "monitor_rank{}.trend.db"
NO_NUMBERS: Final = frozenset({"id", "shape", "dtype"})


class TrendFile:
    """Writes rows into a trend database (implements ``RowSink``).

    Args:
        folder: the folder of the run; made with the first row.
        rank: the rank of this process.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self._path = folder / NAME.format(rank)
        self._rank = rank
        self._database: GrowingDatabase | None = None
        self._steps = 0

    def write(self, step: int, rows: Sequence[Row]) -> None:
        """Write the rows of one step.

        Raises:
            OSError: the database cannot be written.
        """
        try:
            self._write(rows)
        except (*DAMAGED, MsprobeException) as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: Exception) -> OSError:
        """Return the error that the session knows; the one of a database tells what to do with its command."""
        return OSError(f"{self._path}: the database cannot be written ({error_text(error.__cause__ or error)})")

    def _write(self, rows: Sequence[Row]) -> None:
        if not rows:
            return  # as where a source begins with the second step: there are no tables yet
        if self._database is None:
            self._database = GrowingDatabase(self._path)
        database = self._database
        by_names: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            by_names.setdefault(tuple(name for name in row.statistics if name not in NO_NUMBERS), []).append(row)
        with database.transaction():
            for names, some in by_names.items():
                database.prepare(names, list(dict.fromkeys(row.source.name for row in some)))
                database.add(self._rank, [_point(row, names) for row in some])
            if not self._steps:
                database.keep("kind", "monitor")
        self._steps += 1
        if self._steps % TILE_STEPS == 0:
            database.settle(only_full=True)

    def mark(self, alerts: Sequence[Alert]) -> None:
        """Write the alerts of the step whose rows were written last.

        Raises:
            OSError: the database cannot be written.
        """
        if self._database is None:
            return
        try:
            with self._database.transaction():
                self._database.mark(self._rank, map(_mark, alerts))
        except (*DAMAGED, MsprobeException) as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Bring tables up to date that viewers read, and close the file.

        Raises:
            OSError: the database cannot be written.
        """
        if self._database is None:
            return
        database, self._database = self._database, None
        try:
            with database:
                database.settle()
        except (*DAMAGED, MsprobeException) as error:
            raise self._unwritable(error) from error


def _point(row: Row, names: Sequence[str]) -> Point:
    values: dict[str, Any] = {name: row.value(name) for name in names}
    return Point(row.source.name, (row.label, row.stage, row.micro_step or 0), row.step, values)


def _mark(alert: Alert) -> Mark:
    row = alert.row
    return Mark(row.source.name, (row.label, row.stage, row.micro_step or 0), row.step, alert.statistic, alert.reason)
