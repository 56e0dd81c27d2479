"""Writes a trend database into a hidden file, which replaces the one of its name when it is whole."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from msprobe.core.errors import MsprobeException
from msprobe.core.store.atomic import make_folder, open_private
from msprobe.monitor.tags import Tag, tags_of
from msprobe.monitor.trend_rows import Row
from msprobe.monitor.trend_schema import METRICS, STATISTICS, TABLES

_VPP_STAGE = 0
# Nothing can be lost: the file has no name yet.
_PRAGMAS = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536;"
_INSERT = "INSERT OR IGNORE INTO trend_data VALUES (?,?,?,?,?,?,?,?)"


class TrendDatabase:
    """One database being written. Leaving the ``with`` block by an exception leaves the old file as it was."""

    def __init__(self, path: Path) -> None:
        """``path`` is the file to make or to replace.

        Raises:
            MsprobeException: its folder cannot be made or written.
        """
        self._path = path
        try:
            make_folder(path.parent)
            self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            os.close(open_private(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        except OSError as error:
            raise self._unwritable(error.strerror) from error
        self._connection = sqlite3.connect(self._temporary, isolation_level=None)
        self._connection.executescript(_PRAGMAS + TABLES)
        self._connection.executemany("INSERT INTO monitoring_metrics VALUES (?,?)", enumerate(METRICS, 1))
        self._target_ids: dict[tuple[str, int], int] = {}
        self._known: set[tuple[int, str, int]] = set()
        self._tag_ids: dict[tuple[Tag, int], int] = {}
        self._ranks: set[int] = set()
        self._steps: set[int] = set()

    def __enter__(self) -> TrendDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except (OSError, sqlite3.Error) as problem:
            raise self._unwritable(str(problem)) from problem
        finally:
            self._connection.close()
            with contextlib.suppress(OSError):
                self._temporary.unlink()
        if isinstance(error, sqlite3.Error):
            raise self._unwritable(str(error)) from error

    def write(self, rank: int, first_step: int, rows: Iterable[Row]) -> int:
        """Write the rows of one dump in one transaction; its micro step 0 is step ``first_step``.

        Returns how many rows were left out because there was one for the same value before.
        """
        self._connection.execute("BEGIN")
        values = [(rank, first_step + row[2], self._target(row[0], row[1], row[3]), row[0], *row[4:]) for row in rows]
        written = self._connection.executemany(_INSERT, values).rowcount
        self._connection.execute("COMMIT")
        if values:
            self._ranks.add(rank)
            self._steps.update(value[1] for value in values)
        return len(values) - written

    def _target(self, metric: int, name: str, call: int) -> int:
        """The id of a target; it is made, and its tags for this metric, when it is new.

        Ids count the pairs of target and metric, so one whose target is known for another metric is used for nothing:
        so they are in databases made by mindstudio-probe.
        """
        if (metric, name, call) in self._known:
            return self._target_ids[name, call]
        self._known.add((metric, name, call))
        number = self._target_ids.setdefault((name, call), len(self._known))
        if number == len(self._known):
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
        statistics = (",".join(STATISTICS),) * len(METRICS)
        self._connection.execute("INSERT INTO global_stats VALUES (?,?,?,?,?,?,?)", (*numbers, *statistics))
        last = "UPDATE sqlite_sequence SET seq = ? WHERE name = 'monitoring_targets'"
        self._connection.execute(last, (len(self._known),))
        self._connection.close()
        os.replace(self._temporary, self._path)

    def _unwritable(self, reason: str | None) -> MsprobeException:
        text = f"{self._path}: the database cannot be written ({reason}); choose another folder with --db"
        return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
