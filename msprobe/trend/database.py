"""Writes a trend database of dumps, whose tables are those that the plugin TrendVis of TensorBoard reads.

A *target* is a value of a module or function (``Module.fc1.Linear.input.0``) in the n-th of its calls. ``metric_id``
is the direction of the call (``METRICS``). ``trend_data`` has a row per rank, step, target and metric.
``TrendDatabase`` writes into a hidden file, which replaces the file of its name when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msprobe.core.errors import MsprobeException
from msprobe.core.store.sqlite_file import PRAGMAS, AtomicSqliteFile
from msprobe.trend.further_tables import FURTHER_TABLES, TILE_STEPS, drawn, kind_of, number_steps, write_tiles
from msprobe.trend.published_tables import published_tables
from msprobe.trend.rows import COLUMN_STATISTICS, Row, tags_of
from msprobe.trend.targets import Targets

METRICS = ("forward", "backward", "recompute", "parameters_grad")
"""Names of the metrics; their ids count from 1."""

STATISTIC_COLUMNS = tuple(name.lower() for name in COLUMN_STATISTICS)
"""Columns of ``trend_data``, one per statistic."""
_VPP_STAGE = 0
_INSERT = "INSERT OR IGNORE INTO trend_data VALUES ({})".format(",".join("?" * (4 + len(STATISTIC_COLUMNS))))
_NON_FINITE = "INSERT OR IGNORE INTO msprobe_nonfinite VALUES (?,?,?,?,?,?)"


class TrendDatabase(AtomicSqliteFile):
    """One database being written. Leaving the ``with`` block by an exception leaves the old file as it was."""

    def __init__(self, path: Path) -> None:
        """Open a hidden file beside ``path``, the file to create or to replace.

        Raises:
            MsprobeException: its folder cannot be created or written.
        """
        self._path = path
        self._ranks: set[int] = set()
        self._steps: set[int] = set()
        super().__init__(path.with_name(f".{path.name}.{os.getpid()}.tmp"), self._write_error)

    def _begin(self) -> None:
        tables = published_tables(STATISTIC_COLUMNS, METRICS)
        self._connection.executescript(f"{PRAGMAS} PRAGMA cache_size=-65536;{tables}{FURTHER_TABLES}")
        self._connection.executemany("INSERT INTO monitoring_metrics VALUES (?,?)", enumerate(METRICS, 1))
        self._targets = Targets(self._connection)

    def write(self, rank: int, first_step: int, rows: Iterable[Row]) -> int:
        """Write the rows of one dump in one transaction; its micro step 0 is step ``first_step``.

        Return how many rows were left out because there is a row for the same value already.
        """
        self._connection.execute("BEGIN")
        values: list[tuple[Any, ...]] = []
        odd: list[tuple[Any, ...]] = []
        seen: set[tuple[Any, ...]] = set()
        for row in rows:
            key = rank, first_step + row[2], self._target(row[0], row[1], row[3]), row[0]
            values.append((*key, *map(drawn, row[4])))
            kinds = zip(STATISTIC_COLUMNS, map(kind_of, row[4]), strict=True)
            if key not in seen:
                odd += [(*key, name, kind) for name, kind in kinds if kind is not None]
            seen.add(key)
        written = self._connection.executemany(_INSERT, values).rowcount
        self._connection.executemany(_NON_FINITE, odd)
        self._connection.execute("COMMIT")
        if values:
            self._ranks.add(rank)
            self._steps.update(value[1] for value in values)
        return len(values) - written

    def _target(self, metric: int, name: str, call: int) -> int:
        target = name, _VPP_STAGE, call
        number = self._targets.number(metric, target)
        return self._targets.add(metric, target, tags_of(name)) if number is None else number

    def _finish(self) -> None:
        numbers = (max(self._ranks, default=0), min(self._steps, default=0), max(self._steps, default=0))
        statistics = (",".join(STATISTIC_COLUMNS),) * len(METRICS)
        self._connection.execute("BEGIN")
        self._connection.execute("INSERT INTO global_stats VALUES (?,?,?,?,?,?,?)", (*numbers, *statistics))
        self._targets.keep_count()
        number_steps(self._connection, self._steps)
        for rank in sorted(self._ranks):
            for block in range(-(-len(self._steps) // TILE_STEPS)):
                write_tiles(self._connection, rank, block, STATISTIC_COLUMNS)
        self._connection.execute("COMMIT")
        self._connection.close()
        os.replace(self._temporary, self._path)

    def _write_error(self, reason: str | None) -> MsprobeException:
        text = f"{self._path}: the database cannot be written ({reason}); choose another folder with -o"
        return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
