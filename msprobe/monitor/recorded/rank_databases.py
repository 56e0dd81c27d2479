"""Trend databases that single ranks wrote (``format: trend``), read again to put all ranks into one."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from msprobe.core.errors import ReadError
from msprobe.core.store.sqlite_file import DAMAGED, refuse_code
from msprobe.trend.further_tables import INFINITE, quoted, steps_of
from msprobe.trend.growing import WAITING_SECONDS, Mark, Point
from msprobe.trend.monitor_rows import Batch

_NAME = re.compile(r"monitor_rank(\d+)\.trend\.db")
_STEPS_AT_ONCE: Final = 64
_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class RankDatabase:
    """One file."""

    path: Path
    rank: int

    def micro_steps(self) -> int:
        """Return how many micro steps a step has."""
        with self._opened() as connection:
            found = connection.execute("SELECT max(micro_step) FROM monitoring_targets").fetchone()[0]
        return 1 + int(found or 0)

    def statistics(self) -> list[str]:
        """Return the columns that are statistics."""
        with self._opened() as connection:
            return [row[1] for row in connection.execute("PRAGMA table_info(trend_data)")][4:]

    def batches(self, begin: int) -> Iterator[Batch]:
        """Yield the rows of the steps from ``begin`` on; ``read`` is the step behind them.

        Raises:
            ReadError: the database is damaged.
        """
        names = self.statistics()
        columns = ", ".join(quoted(name) for name in names)
        query = f"""SELECT step, metric_name, target_name, vpp_stage, micro_step, target_id, metric_id, {columns}
            FROM trend_data JOIN monitoring_targets USING (target_id) JOIN monitoring_metrics USING (metric_id)
            WHERE rank = ? AND step BETWEEN ? AND ? ORDER BY step, target_id, metric_id"""
        with self._opened() as connection:
            steps = [step for step in steps_of(connection, self.rank) if step >= begin]
            for place in range(0, len(steps), _STEPS_AT_ONCE):
                some = steps[place : place + _STEPS_AT_ONCE]
                ends = self.rank, some[0], some[-1]
                odd = _not_a_number(connection, ends)
                rows = connection.execute(query, ends)
                yield Batch([_point(row, names, odd) for row in rows], some[-1] + 1)

    def marks(self) -> list[Mark]:
        """Return the alerts."""
        query = """SELECT metric_name, target_name, vpp_stage, micro_step, step, statistic, reason FROM msprobe_alerts
            JOIN monitoring_targets USING (target_id) JOIN monitoring_metrics USING (metric_id)"""
        with self._opened() as connection:
            return [Mark(row[0], (row[1], row[2], row[3]), *row[4:]) for row in connection.execute(query)]

    def _opened(self) -> _Reading:
        return _Reading(self.path)


class _Reading:
    """A connection that reads, whose errors are told with the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> sqlite3.Connection:
        address = f"file:{quote(str(self._path.absolute()))}?mode=rw"  # may mend what a killed process left
        self._connection = closing(sqlite3.connect(address, uri=True, timeout=WAITING_SECONDS))
        connection = self._connection.__enter__()
        try:
            refuse_code(connection)
        except sqlite3.Error as error:
            self.__exit__(type(error), error, None)
        return connection

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._connection.__exit__(kind, error, trace)
        if isinstance(error, DAMAGED):
            raise ReadError(f"{self._path}: {error}; remove the file") from error


def find_rank_databases(folder: Path) -> list[RankDatabase]:
    """Return the databases of ranks in a folder and three levels below it, by rank, the oldest of a rank first."""
    patterns = ["/".join(["*"] * depth + ["monitor_rank*.trend.db"]) for depth in range(_DEPTH + 1)]
    found = [
        RankDatabase(path, int(match[1]))
        for pattern in patterns
        for path in folder.glob(pattern)
        if (match := _NAME.fullmatch(path.name)) and not path.is_symlink() and path.stat().st_size
    ]
    return sorted(found, key=lambda one: (one.rank, one.path.stat().st_ctime_ns, str(one.path)))


def _not_a_number(connection: sqlite3.Connection, ends: tuple[int, int, int]) -> set[tuple[int, int, int, str]]:
    query = """SELECT step, target_id, metric_id, statistic FROM msprobe_nonfinite
        WHERE kind = 'nan' AND rank = ? AND step BETWEEN ? AND ?"""
    return set(connection.execute(query, ends))


def _point(row: tuple[Any, ...], names: list[str], odd: set[tuple[int, int, int, str]]) -> Point:
    step, metric, name, stage, micro, target, number = row[:7]
    values = {}
    for statistic, value in zip(names, row[7:], strict=True):
        if value is None:
            values[statistic] = float("nan") if (step, target, number, statistic) in odd else None
        else:
            values[statistic] = value if abs(value) < INFINITE else float("inf" if value > 0 else "-inf")
    return Point(metric, (name, stage, micro), step, values)
