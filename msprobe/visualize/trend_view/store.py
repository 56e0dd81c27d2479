"""One trend database for reading: its axes, and the cells of any part of it.

Cells come from the tiles of ``trend/further_tables.py``; a block of steps without tiles, and a database of another
tool, is read from ``trend_data`` when it is first looked at. A training may be writing the file meanwhile.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.sqlite_file import DAMAGED, refuse_code
from msprobe.trend.extremes import Cells, absent_cells, extremes
from msprobe.trend.further_tables import (
    COARSE,
    TILE_STEPS,
    TILE_TARGETS,
    TileKey,
    has_table,
    quoted,
    ranks_of,
    read_block,
    steps_of,
)

Ints = NDArray[np.int64]
PATTERN: Final = "*.trend.db"
_NEEDED: Final = {"trend_data", "monitoring_targets", "monitoring_metrics", "global_stats"}
_WAITING_SECONDS: Final = 30.0
_KEPT_BLOCKS: Final = 64
_MOST_ALERTS: Final = 5000
_REMEDY: Final = "make it again with msprobe data2db"
_NUMBER = re.compile(r"(\d+)")
Target = tuple[str, int, int]
"""target_name, vpp_stage and micro_step."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its id, and its targets (``ids``, ``names``) in the order of their ids."""

    number: int
    name: str
    statistics: tuple[str, ...]
    ids: tuple[int, ...]
    names: tuple[Target, ...]


class TrendStore:
    """The content of one file at one moment.

    Args:
        path: the file.

    Raises:
        ReadError: it is no trend database, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.revision = revision_of(path)
        self._blocks: OrderedDict[tuple[int, int], dict[TileKey, Cells]] = OrderedDict()
        self._lock = threading.Lock()
        try:
            with open_trend(path) as connection:
                self._read(connection)
        except (OSError, *DAMAGED) as error:
            raise ReadError(f"{path}: no trend database that can be read ({error_text(error)}); {_REMEDY}") from error

    def _read(self, connection: sqlite3.Connection) -> None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if missing := sorted(_NEEDED - tables):
            raise ReadError(f"{self.path} is no trend database: it has no table {', '.join(missing)}; {_REMEDY}")
        self.columns = tuple(row[1] for row in connection.execute("PRAGMA table_info(trend_data)"))[4:]
        self.ranks = tuple(ranks_of(connection))
        if "msprobe_steps" in tables:
            rows = list(connection.execute("SELECT step, place FROM msprobe_steps ORDER BY step"))
        else:
            found = sorted({step for rank in self.ranks for step in steps_of(connection, rank)})
            rows = [(step, place) for place, step in enumerate(found)]
        self.steps = np.array([row[0] for row in rows], np.int64)
        self.places = np.array([row[1] for row in rows], np.int64)
        self.in_order = bool((self.places == np.arange(len(self.places))).all())
        self._has_coarse = "msprobe_coarse" in tables
        self.metrics = {metric.name: metric for metric in _metrics(connection, self.columns)}
        self.info: dict[str, str] = {}
        if "msprobe_info" in tables:
            self.info = {
                str(key): str(value) for key, value in connection.execute("SELECT key, value FROM msprobe_info")
            }
        self._tiled: set[tuple[int, int]] = set()
        if "msprobe_tiled" in tables:
            self._tiled = set(connection.execute("SELECT rank, step_block FROM msprobe_tiled"))
        self.alerts = _alerts(connection) if "msprobe_alerts" in tables else []

    @property
    def resolution(self) -> float:
        """Return the distance of two neighbouring numbers of the files that were read; 0 where they are exact."""
        try:
            return float(self.info.get("resolution", "0"))
        except ValueError:
            return 0.0

    def cells(self, metric: Metric, statistic: str, rank: int, steps: Ints, targets: Ints) -> Cells:
        """Return the cells of a rank, one row per step and one column per target; ``ABSENT_BITS`` where is no value.

        Args:
            metric: the metric.
            statistic: a column of ``trend_data``.
            rank: the rank.
            steps: positions in ``steps``; -1 for a step that the run does not have.
            targets: positions in the targets of the metric; -1 for one that it does not have.
        """
        ids = np.array(metric.ids, np.int64)
        if not len(ids) or not len(self.steps) or statistic not in self.columns or rank not in self.ranks:
            return absent_cells(len(steps), len(targets))
        place = np.where(steps >= 0, self.places[steps], -1)
        number = np.where(targets >= 0, ids[targets], -1)
        rows, columns = _by_block(place, TILE_STEPS), _by_block(number, TILE_TARGETS)
        table = _Columns(len(steps), number, columns)
        with self._opened() as connection:
            stored = {block for block in rows if (rank, block) in self._tiled}
            key = metric.number, statistic, rank
            for block, column, tile in _tiles(connection, "msprobe_tiles", key, (sorted(stored), sorted(columns))):
                table.put(tile, rows[block], column)
            for block in sorted(set(rows) - stored):
                tiles = self._from_rows(connection, rank, block)
                for column in columns.keys() & {place[2] for place in tiles if place[:2] == (metric.number, statistic)}:
                    table.put(tiles[metric.number, statistic, column], rows[block], column)
        return table.cells()

    def coarse_cells(self, key: tuple[Metric, str, int], ends: tuple[int, int], targets: Ints) -> Cells | None:
        """Return the extremes of each ``COARSE`` steps from ``ends[0]`` on, a multiple of it; None if there are none.

        Args:
            key: metric, statistic and rank.
            ends: positions in ``steps``, which are ``in_order``.
            targets: positions in the targets of the metric; -1 for one that it does not have.
        """
        metric, statistic, rank = key
        blocks = range(ends[0] // TILE_STEPS, -(-ends[1] // TILE_STEPS))
        stored = [block for block in blocks if (rank, block) in self._tiled]
        if not self._has_coarse or not stored or statistic not in self.columns:
            return None
        groups = np.arange(ends[0] // COARSE, -(-ends[1] // COARSE))
        number = np.where(targets >= 0, np.array(metric.ids, np.int64)[targets], -1)
        rows, columns = _by_block(groups, TILE_STEPS // COARSE), _by_block(number, TILE_TARGETS)
        table = _Columns(len(groups), number, columns)
        with self._opened() as connection:
            place = metric.number, statistic, rank
            for block, column, tile in _tiles(connection, "msprobe_coarse", place, (stored, sorted(columns))):
                table.put(tile, rows[block], column)
        result = table.cells()
        for block in sorted(set(blocks) - set(stored)):
            steps = np.arange(block * TILE_STEPS, min((block + 1) * TILE_STEPS, len(self.steps)))
            fine = extremes(self.cells(metric, statistic, rank, steps, targets), COARSE)
            result[rows[block][0]] = fine[rows[block][1]]
        return result

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with open_trend(self.path) as connection:
                yield connection
        except DAMAGED as error:
            raise ReadError(f"{self.path}: {error_text(error)}; {_REMEDY}") from error

    def _from_rows(self, connection: sqlite3.Connection, rank: int, block: int) -> dict[TileKey, Cells]:
        """Return the tiles of a block that has none in the file; some blocks are kept in memory."""
        with self._lock:
            if (rank, block) in self._blocks:
                self._blocks.move_to_end((rank, block))
                return self._blocks[rank, block]
            first = block * TILE_STEPS
            inside = np.flatnonzero((self.places >= first) & (self.places < first + TILE_STEPS))
            places = {int(self.steps[one]): int(self.places[one]) - first for one in inside}
            tiles = read_block(connection, rank, places, self.columns)
            self._blocks[rank, block] = tiles
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
            return tiles


def _by_block(numbers: Ints, size: int) -> dict[int, tuple[Ints, Ints]]:
    """Return for each block the positions of its numbers, and their places in it."""
    result = {}
    for block in np.unique(numbers // size):
        if block >= 0:
            inside = np.flatnonzero(numbers // size == block)
            result[int(block)] = (inside, numbers[inside] % size)
    return result


class _Columns:
    """Cells put together from tiles. Whole tiles lie side by side first, and all columns are chosen at once at the end.

    Args:
        rows: how many rows there are.
        numbers: the target id of each column; -1 for one without cells.
        columns: those of each block of targets: their positions in ``numbers``, and their places in a tile.
    """

    def __init__(self, rows: int, numbers: Ints, columns: Mapping[int, tuple[Ints, Ints]]) -> None:
        self._columns = columns
        self._few = len(numbers) * 2 < len(columns) * TILE_TARGETS
        self._begins = {block: number * TILE_TARGETS for number, block in enumerate(sorted(columns))}
        absent = len(columns) * TILE_TARGETS
        self._cells = absent_cells(rows, len(numbers) if self._few else absent + 1)
        self._chosen = np.full(len(numbers), absent)
        for block, (into, from_) in columns.items():
            self._chosen[into] = self._begins[block] + from_

    def put(self, tile: Cells, rows: tuple[Ints, Ints], block: int) -> None:
        """Take a tile of a block of targets; ``rows`` are the positions of its rows, and their places in it."""
        inside = rows[1] < len(tile)
        into, from_ = rows[0][inside], rows[1][inside]
        if not len(into):
            return
        source = tile.view(np.uint32)
        together = into[-1] - into[0] == from_[-1] - from_[0] == len(into) - 1  # neighbours: by far the most
        source = source[from_[0] : from_[-1] + 1] if together else source[from_]
        target = self._cells.view(np.uint32)
        if self._few:
            columns = self._columns[block]
            target[into[:, None], columns[0]] = source[:, columns[1]]
            return
        begin = self._begins[block]
        where = slice(into[0], into[-1] + 1) if together else into
        target[where, begin : begin + TILE_TARGETS] = source

    def cells(self) -> Cells:
        """Return what was put together."""
        if self._few:
            return self._cells
        return np.take(self._cells.view(np.uint32), self._chosen, axis=1).view(np.float32)


def _tiles(
    connection: sqlite3.Connection, table: str, key: tuple[int, str, int], blocks: tuple[Sequence[int], Sequence[int]]
) -> Iterator[tuple[int, int, Cells]]:
    """Yield block of places, block of targets and cells of those that are wanted; ``blocks`` are ascending."""
    steps, targets = blocks
    if not steps or not targets:
        return
    select = f"SELECT step_block, target_block, cells FROM {table} WHERE metric_id = ? AND statistic = ? AND rank = ?"
    if len(targets) == 1:
        query = f"{select} AND step_block = ? AND target_block = ?"
        found = (row for block in steps for row in connection.execute(query, (*key, block, targets[0])))
    else:
        query = f"{select} AND step_block BETWEEN ? AND ? AND target_block BETWEEN ? AND ?"
        ends = steps[0], steps[-1], targets[0], targets[-1]
        found = (row for row in connection.execute(query, (*key, *ends)))
    wanted, chosen = set(steps), set(targets)
    for block, column, content in found:
        if block in wanted and column in chosen:
            yield block, column, np.frombuffer(content, np.float32).reshape(-1, TILE_TARGETS)


def _metrics(connection: sqlite3.Connection, columns: Sequence[str]) -> Iterator[Metric]:
    known = {row[1] for row in connection.execute("PRAGMA table_info(global_stats)")}
    targets: dict[int, dict[int, Target]] = {}
    query = """SELECT DISTINCT metric_id, target_id, target_name, vpp_stage, micro_step FROM tag_target_mapping
        JOIN monitoring_tags USING (tag_id) JOIN monitoring_targets USING (target_id) ORDER BY 1, 2"""
    for metric, number, *target in connection.execute(query):
        targets.setdefault(metric, {})[number] = (str(target[0]), int(target[1]), int(target[2]))
    for number, name in connection.execute("SELECT metric_id, metric_name FROM monitoring_metrics ORDER BY 1"):
        if number not in targets:
            continue
        row = connection.execute(f"SELECT {quoted(name)} FROM global_stats").fetchone() if name in known else None
        listed = str(row[0]).split(",") if row and row[0] else columns
        statistics = tuple(column for column in columns if column in listed)
        yield Metric(int(number), str(name), statistics, tuple(targets[number]), tuple(targets[number].values()))


def _alerts(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return metric, rank, step, target_id, statistic and reason of the first alerts."""
    query = """SELECT metric_name, rank, step, target_id, statistic, reason FROM msprobe_alerts
        JOIN monitoring_metrics USING (metric_id) ORDER BY step, rank, target_id LIMIT ?"""
    return [
        (str(row[0]), *map(int, row[1:4]), *map(str, row[4:])) for row in connection.execute(query, (_MOST_ALERTS,))
    ]


def natural(name: Target) -> tuple[Any, ...]:
    """Return what names are sorted by: as trees, numbers by their value."""
    parts = (
        tuple((int(one) if one.isdigit() else -1, one) for one in _NUMBER.split(part)) for part in name[0].split(".")
    )
    return (name[1], tuple(parts), name[2])


def revision_of(path: Path) -> tuple[int, int]:
    """Return what changes whenever the file does."""
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size


@contextmanager
def open_trend(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection that reads, beside a process that may be writing.

    A process that was killed while it wrote leaves a journal; only a connection that may write brings the file back to
    its last state.
    """
    with closing(_connected(path, "ro")) as connection:
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            if not path.with_name(path.name + "-journal").exists():
                raise
            with closing(_connected(path, "rw")) as mending:
                mending.execute("SELECT count(*) FROM sqlite_master").fetchone()
        refuse_code(connection)
        yield connection


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=_WAITING_SECONDS)
    connection.text_factory = lambda content: content.decode("utf-8", "backslashreplace")
    return connection


def find_trends(path: Path) -> list[Path]:
    """Return the trend databases at a path: itself, or those in the folder, newest first."""
    if path.is_file():
        return [path] if path.name.endswith(PATTERN[1:]) else []
    if not path.is_dir():
        return []
    found = [file for pattern in (PATTERN, f"*/{PATTERN}") for file in path.glob(pattern) if file.is_file()]
    return sorted((file for file in found if not file.name.startswith(".")), key=lambda file: -file.stat().st_mtime_ns)


def has_published_tables(path: Path) -> bool:
    """Return whether a file is a trend database, whatever its name is."""
    try:
        with open_trend(path) as connection:
            return has_table(connection, "trend_data") and has_table(connection, "monitoring_targets")
    except (OSError, *DAMAGED):
        return False
