"""A trend database that grows: rows are added while a training writes them, and a viewer may read meanwhile.

Every ``transaction`` leaves the file whole; a process that is killed leaves what the last one wrote. The tiles of a
block of steps are either up to date or not there (``msprobe_tiled``), so that a viewer reads ``trend_data`` instead.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.store.safe_files import make_folder, open_private
from msprobe.core.store.sqlite_file import DAMAGED, refuse_code
from msprobe.trend.further_tables import (
    FURTHER_TABLES,
    TILE_STEPS,
    drawn,
    has_table,
    kind_of,
    number_steps,
    quoted,
    ranks_of,
    write_tiles,
)
from msprobe.trend.published_tables import column_of, published_tables
from msprobe.trend.targets import TargetName, Targets, parameter_tags

ENDS = ("min_step", "max_step", "max_rank")
WAITING_SECONDS = 30.0


class Point(NamedTuple):
    """One tensor of one step: where it belongs, and its statistics by name; None for one that it does not have."""

    metric: str
    target: TargetName
    step: int
    values: dict[str, float | None]


class Mark(NamedTuple):
    """One alert: the value that deserves attention, and why."""

    metric: str
    target: TargetName
    step: int
    statistic: str
    reason: str


class GrowingDatabase:
    """One database that is open for adding.

    Args:
        path: the file; made with its folder when it is missing.

    Raises:
        MsprobeException: it cannot be opened or written, or is no database of this kind.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] = []
        self._metrics: dict[str, int] = {}
        self._touched: set[tuple[int, int]] = set()
        self._targets: Targets | None = None
        try:
            make_folder(path.absolute().parent)
            os.close(open_private(path, os.O_RDWR | os.O_CREAT))
            self._connection = sqlite3.connect(
                path, isolation_level=None, timeout=WAITING_SECONDS, check_same_thread=False
            )
            # A killed process loses nothing that was committed; only a loss of power may.
            self._connection.executescript("PRAGMA synchronous=OFF; PRAGMA cache_size=-65536;")
            refuse_code(self._connection)
            with self.transaction():
                if has_table(self._connection, "trend_data"):
                    self._read_what_is_there()
        except (OSError, *DAMAGED) as error:
            raise self.unwritable(error) from error

    def _read_what_is_there(self) -> None:
        for statement in FURTHER_TABLES.split(";"):
            self._connection.execute(statement)
        self._columns = [row[1] for row in self._connection.execute("PRAGMA table_info(trend_data)")][4:]
        self._metrics = {name: number for number, name in self._connection.execute("SELECT * FROM monitoring_metrics")}
        self._targets = Targets(self._connection)

    def unwritable(self, error: Exception) -> MsprobeException:
        """Return the error for the user."""
        text = f"{self.path}: the database cannot be written ({error_text(error)}); choose another folder with -o"
        return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)

    def __enter__(self) -> GrowingDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, DAMAGED):
            raise self.unwritable(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep all that is done inside, or nothing of it."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    # ---------------------------------------------------------------- texts and files

    def info(self, key: str) -> str | None:
        """Return a text that was kept with ``keep``."""
        if not has_table(self._connection, "msprobe_info"):
            return None
        row = self._connection.execute("SELECT value FROM msprobe_info WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def keep(self, key: str, value: str) -> None:
        """Keep a text."""
        self._connection.execute("INSERT OR REPLACE INTO msprobe_info VALUES (?,?)", (key, value))

    def read_until(self, file: str) -> int:
        """Return how many bytes of a file have been read."""
        if not has_table(self._connection, "msprobe_files"):
            return 0
        row = self._connection.execute("SELECT read FROM msprobe_files WHERE path = ?", (file,)).fetchone()
        return 0 if row is None else int(row[0])

    def set_read(self, file: str, until: int) -> None:
        """Keep how many bytes of a file have been read."""
        self._connection.execute("INSERT OR REPLACE INTO msprobe_files VALUES (?,?)", (file, until))

    # ---------------------------------------------------------------- rows

    def prepare(self, statistics: Sequence[str], metrics: Sequence[str]) -> None:
        """Make the tables, or add columns for statistics and metrics that are new.

        Raises:
            ReadError: a name cannot be the name of a column.
        """
        if self._targets is None:
            for statement in (published_tables(statistics, metrics, ENDS) + FURTHER_TABLES).split(";"):
                self._connection.execute(statement)
            self._connection.execute("INSERT INTO global_stats DEFAULT VALUES")
            self._columns = list(statistics)
            self._targets = Targets(self._connection)
        for name in statistics:
            if name not in self._columns:
                self._connection.execute(f"ALTER TABLE trend_data ADD COLUMN {column_of(name)} REAL DEFAULT NULL")
                self._columns.append(name)
        existing = {row[1] for row in self._connection.execute("PRAGMA table_info(global_stats)")}
        for name in metrics:
            if name not in existing:
                self._connection.execute(f"ALTER TABLE global_stats ADD COLUMN {column_of(name)} TEXT DEFAULT NULL")
            if name not in self._metrics:
                self._metrics[name] = len(self._metrics) + 1
                self._connection.execute("INSERT INTO monitoring_metrics VALUES (?,?)", (self._metrics[name], name))
            self._add_statistics(name, statistics)

    def _add_statistics(self, metric: str, statistics: Sequence[str]) -> None:
        name = quoted(metric)
        text = self._connection.execute(f"SELECT {name} FROM global_stats").fetchone()[0]
        names = list(dict.fromkeys([*(text.split(",") if text else []), *statistics]))
        self._connection.execute(f"UPDATE global_stats SET {name} = ?", (",".join(names),))

    def add(self, rank: int, points: Sequence[Point]) -> None:
        """Write points of a rank within a transaction; a later point replaces an earlier one of its place.

        The statistics and metrics are those of ``prepare``.
        """
        rows: list[tuple[Any, ...]] = []
        odd: list[tuple[Any, ...]] = []
        for point in points:
            key = rank, point.step, self._number(point.metric, point.target), self._metrics[point.metric]
            values = [point.values.get(name) for name in self._columns]
            rows.append((*key, *map(drawn, values)))
            for name, value in zip(self._columns, values, strict=True):
                if (kind := kind_of(value)) is not None:
                    odd.append((*key, name, kind))
        marks = ",".join("?" * (4 + len(self._columns)))
        names = ", ".join(map(quoted, self._columns))
        self._connection.executemany(
            f"INSERT OR REPLACE INTO trend_data (rank, step, target_id, metric_id, {names}) VALUES ({marks})", rows
        )
        if self._has_non_finite(rank):
            query = "DELETE FROM msprobe_nonfinite WHERE rank = ? AND step = ? AND target_id = ? AND metric_id = ?"
            self._connection.executemany(query, (row[:4] for row in rows))
        self._connection.executemany("INSERT OR REPLACE INTO msprobe_nonfinite VALUES (?,?,?,?,?,?)", odd)
        self._touch(rank, {point.step for point in points})

    def _has_non_finite(self, rank: int) -> bool:
        query = "SELECT 1 FROM msprobe_nonfinite WHERE rank = ? LIMIT 1"
        return self._connection.execute(query, (rank,)).fetchone() is not None

    def _number(self, metric: str, target: TargetName) -> int:
        assert self._targets is not None
        number = self._targets.number(self._metrics[metric], target)
        return self._targets.add(self._metrics[metric], target, parameter_tags(target[0])) if number is None else number

    def _touch(self, rank: int, steps: set[int]) -> None:
        places = number_steps(self._connection, steps)
        blocks = {(rank, place // TILE_STEPS) for place in places.values()} - self._touched
        self._connection.executemany("DELETE FROM msprobe_tiled WHERE rank = ? AND step_block = ?", blocks)
        self._touched |= blocks

    def mark(self, rank: int, alerts: Iterable[Mark]) -> int:
        """Write alerts of tensors that the database knows; return how many it does not know."""
        unknown = 0
        for alert in alerts:
            metric = self._metrics.get(alert.metric)
            number = None if metric is None or self._targets is None else self._targets.number(metric, alert.target)
            if number is None:
                unknown += 1
                continue
            row = rank, alert.step, number, metric, alert.statistic, alert.reason
            self._connection.execute("INSERT OR REPLACE INTO msprobe_alerts VALUES (?,?,?,?,?,?)", row)
        return unknown

    # ---------------------------------------------------------------- after the rows

    def settle(self, only_full: bool = False) -> None:
        """Bring ``global_stats`` and the tiles up to date, a transaction for each block.

        ``only_full`` leaves the last block to a later call: a viewer reads its rows.
        """
        if self._targets is None:
            return
        with self.transaction():
            self._targets.keep_count()
            ends = self._connection.execute("SELECT min(step), max(step) FROM msprobe_steps").fetchone()
            last = max(ranks_of(self._connection), default=0)
            update = "UPDATE global_stats SET min_step = ?, max_step = ?, max_rank = ?"
            self._connection.execute(update, (ends[0] or 0, ends[1] or 0, last))
            count = self._connection.execute("SELECT count(*) FROM msprobe_steps").fetchone()[0]
        for rank, block in self.without_tiles():
            if not only_full or (block + 1) * TILE_STEPS < count:
                with self.transaction():
                    write_tiles(self._connection, rank, block, self._columns)
                self._touched.discard((rank, block))

    def without_tiles(self) -> list[tuple[int, int]]:
        """Return rank and block of places of all tiles that are not up to date."""
        count = self._connection.execute("SELECT count(*) FROM msprobe_steps").fetchone()[0]
        done = set(self._connection.execute("SELECT rank, step_block FROM msprobe_tiled"))
        blocks = range(-(-count // TILE_STEPS))
        return [(rank, block) for rank in ranks_of(self._connection) for block in blocks if (rank, block) not in done]

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of rows, steps and ranks."""
        if self._targets is None:
            return 0, 0, 0
        one = [self._connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in _COUNTED]
        return one[0], one[1], len(list(ranks_of(self._connection)))


_COUNTED = ("trend_data", "msprobe_steps")
