"""Writes a trend database, whose tables are those that the plugin TrendVis of TensorBoard reads.

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
from msprobe.trend.rows import COLUMN_STATISTICS, Row, Tag, tags_of

METRICS = ("forward", "backward", "recompute", "parameters_grad")
"""Names of the metrics; their ids count from 1."""

STATISTIC_COLUMNS = tuple(name.lower() for name in COLUMN_STATISTICS)
"""Columns of ``trend_data``, one per statistic."""

TABLES = f"""
CREATE TABLE monitoring_targets (
    target_id INTEGER PRIMARY KEY AUTOINCREMENT,
    target_name TEXT NOT NULL,
    vpp_stage INTEGER NOT NULL,
    micro_step INTEGER NOT NULL DEFAULT 0,
    UNIQUE(target_name, vpp_stage, micro_step)
);
CREATE TABLE monitoring_metrics (
    metric_id INTEGER PRIMARY KEY AUTOINCREMENT,
    metric_name TEXT UNIQUE NOT NULL
);
CREATE TABLE monitoring_tags (
    tag_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tag_name TEXT NOT NULL,
    category TEXT NOT NULL,
    metric_id INTEGER NOT NULL,
    UNIQUE(tag_name, category, metric_id),
    FOREIGN KEY (metric_id) REFERENCES monitoring_metrics(metric_id)
);
CREATE TABLE tag_target_mapping (
    tag_id INTEGER NOT NULL,
    target_id INTEGER NOT NULL,
    PRIMARY KEY (tag_id, target_id),
    FOREIGN KEY (tag_id) REFERENCES monitoring_tags(tag_id),
    FOREIGN KEY (target_id) REFERENCES monitoring_targets(target_id)
);
CREATE TABLE trend_data (
    rank INTEGER NOT NULL,
    step INTEGER NOT NULL,
    target_id INTEGER NOT NULL,
    metric_id INTEGER NOT NULL,
    {", ".join(f"{name} REAL DEFAULT NULL" for name in STATISTIC_COLUMNS)},
    PRIMARY KEY (rank, step, target_id, metric_id),
    FOREIGN KEY (target_id) REFERENCES monitoring_targets(target_id),
    FOREIGN KEY (metric_id) REFERENCES monitoring_metrics(metric_id)
) WITHOUT ROWID;
CREATE TABLE global_stats (
    max_rank INTEGER DEFAULT 0, min_step INTEGER DEFAULT 0, max_step INTEGER DEFAULT 0,
    {", ".join(f"{name} TEXT DEFAULT NULL" for name in METRICS)}
);
"""
_VPP_STAGE = 0
_INSERT = "INSERT OR IGNORE INTO trend_data VALUES ({})".format(",".join("?" * (4 + len(STATISTIC_COLUMNS))))


class TrendDatabase(AtomicSqliteFile):
    """One database being written. Leaving the ``with`` block by an exception leaves the old file as it was."""

    def __init__(self, path: Path) -> None:
        """Open a hidden file beside ``path``, the file to create or to replace.

        Raises:
            MsprobeException: its folder cannot be created or written.
        """
        self._path = path
        self._target_ids: dict[tuple[str, int], int] = {}
        self._seen_targets: set[tuple[int, str, int]] = set()
        self._tag_ids: dict[tuple[Tag, int], int] = {}
        self._ranks: set[int] = set()
        self._steps: set[int] = set()
        super().__init__(path.with_name(f".{path.name}.{os.getpid()}.tmp"), self._write_error)

    def _begin(self) -> None:
        self._connection.executescript(f"{PRAGMAS} PRAGMA cache_size=-65536;{TABLES}")
        self._connection.executemany("INSERT INTO monitoring_metrics VALUES (?,?)", enumerate(METRICS, 1))

    def write(self, rank: int, first_step: int, rows: Iterable[Row]) -> int:
        """Write the rows of one dump in one transaction; its micro step 0 is step ``first_step``.

        Return how many rows were left out because there is a row for the same value already.
        """
        self._connection.execute("BEGIN")
        values: list[tuple[Any, ...]] = [
            (rank, first_step + row[2], self._target(row[0], row[1], row[3]), row[0], *row[4]) for row in rows
        ]
        written = self._connection.executemany(_INSERT, values).rowcount
        self._connection.execute("COMMIT")
        if values:
            self._ranks.add(rank)
            self._steps.update(value[1] for value in values)
        return len(values) - written

    def _target(self, metric: int, name: str, call: int) -> int:
        """Return the id of a target. A new target is inserted, and its tags for this metric.

        Ids count the pairs of target and metric, as in the databases of mindstudio-probe: the number of a pair whose
        target has an id already stays unused.
        """
        if (metric, name, call) in self._seen_targets:
            return self._target_ids[name, call]
        self._seen_targets.add((metric, name, call))
        number = self._target_ids.setdefault((name, call), len(self._seen_targets))
        if number == len(self._seen_targets):
            row = (number, name, _VPP_STAGE, call)
            self._connection.execute("INSERT INTO monitoring_targets VALUES (?,?,?,?)", row)
        pairs = [(self._tag(tag, metric), number) for tag in tags_of(name)]
        self._connection.executemany("INSERT INTO tag_target_mapping VALUES (?,?)", pairs)
        return number

    def _tag(self, tag: Tag, metric: int) -> int:
        number = self._tag_ids.get((tag, metric))
        if number is None:
            number = self._tag_ids[tag, metric] = len(self._tag_ids) + 1
            self._connection.execute("INSERT INTO monitoring_tags VALUES (?,?,?,?)", (number, *tag, metric))
        return number

    def _finish(self) -> None:
        numbers = (max(self._ranks, default=0), min(self._steps, default=0), max(self._steps, default=0))
        statistics = (",".join(STATISTIC_COLUMNS),) * len(METRICS)
        self._connection.execute("INSERT INTO global_stats VALUES (?,?,?,?,?,?,?)", (*numbers, *statistics))
        last = "UPDATE sqlite_sequence SET seq = ? WHERE name = 'monitoring_targets'"
        self._connection.execute(last, (len(self._seen_targets),))
        self._connection.close()
        os.replace(self._temporary, self._path)

    def _write_error(self, reason: str | None) -> MsprobeException:
        text = f"{self._path}: the database cannot be written ({reason}); choose another folder with -o"
        return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
