"""Tables beside the published ones: what trend viewers cannot see in ``trend_data``, and tiles for fast pictures.

``msprobe_nonfinite``  NaN and infinities, which ``trend_data`` holds as NULL and as ±(1e9 + 1)
``msprobe_alerts``     alerts of a monitor
``msprobe_steps``      each step and its place; places count in the order in which steps came
``msprobe_tiles``      cells of one statistic as float32: up to ``TILE_STEPS`` places x ``TILE_TARGETS`` target ids
``msprobe_coarse``     the same tiles with one cell for each ``COARSE`` places, their extreme
``msprobe_tiled``      the (rank, block of places) whose tiles hold everything that ``trend_data`` has
``msprobe_info``       texts: which tool wrote the file, how many micro steps a step has
``msprobe_files``      how far each file of a monitor has been read

A tile holds ``ABSENT`` where there is no value: a NaN with bits of its own, so that it is told from a NaN that was
measured. A viewer that knows the published tables only is not disturbed by any of them.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from msprobe.trend.extremes import ABSENT_BITS, NAN_BITS, Cells, absent_cells, extremes

LARGEST: Final = 1e9
INFINITE: Final = LARGEST + 1
"""What ``trend_data`` holds for the largest magnitudes and for infinity."""
TILE_STEPS: Final = 256
TILE_TARGETS: Final = 64
COARSE: Final = 8
"""How many places a cell of ``msprobe_coarse`` stands for; a divisor of ``TILE_STEPS``."""
FURTHER_TABLES: Final = """
CREATE TABLE IF NOT EXISTS msprobe_info (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS msprobe_steps (place INTEGER PRIMARY KEY, step INTEGER NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS msprobe_nonfinite (
    rank INTEGER NOT NULL, step INTEGER NOT NULL, target_id INTEGER NOT NULL, metric_id INTEGER NOT NULL,
    statistic TEXT NOT NULL, kind TEXT NOT NULL,
    PRIMARY KEY (rank, step, target_id, metric_id, statistic)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS msprobe_alerts (
    rank INTEGER NOT NULL, step INTEGER NOT NULL, target_id INTEGER NOT NULL, metric_id INTEGER NOT NULL,
    statistic TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (rank, step, target_id, metric_id, statistic)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS msprobe_tiles (
    metric_id INTEGER NOT NULL, statistic TEXT NOT NULL, rank INTEGER NOT NULL,
    target_block INTEGER NOT NULL, step_block INTEGER NOT NULL, cells BLOB NOT NULL,
    UNIQUE (metric_id, statistic, rank, step_block, target_block)
);
CREATE TABLE IF NOT EXISTS msprobe_coarse (
    metric_id INTEGER NOT NULL, statistic TEXT NOT NULL, rank INTEGER NOT NULL,
    target_block INTEGER NOT NULL, step_block INTEGER NOT NULL, cells BLOB NOT NULL,
    UNIQUE (metric_id, statistic, rank, step_block, target_block)
);
CREATE TABLE IF NOT EXISTS msprobe_tiled (
    rank INTEGER NOT NULL, step_block INTEGER NOT NULL, PRIMARY KEY (rank, step_block)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS msprobe_files (path TEXT PRIMARY KEY, read INTEGER NOT NULL) WITHOUT ROWID;
"""
TileKey = tuple[int, str, int]
"""metric_id, statistic, block of target ids."""


def drawn(value: Any) -> float | None:
    """Return a number as trend viewers draw it: between ±``LARGEST``, ±``INFINITE``, or None for no number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    except OverflowError:  # an integer too large for a float
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        return None
    if math.isinf(number):
        return math.copysign(INFINITE, number)
    return min(max(number, -LARGEST), LARGEST)


def kind_of(value: Any) -> str | None:
    """Return ``nan``, ``inf`` or ``-inf`` for what is none of the finite numbers, else None."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if math.isfinite(number):
        return None
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def read_block(
    connection: sqlite3.Connection, rank: int, places: Mapping[int, int], statistics: Sequence[str]
) -> dict[TileKey, Cells]:
    """Return the tiles of one rank and block of places, from the rows of ``trend_data``.

    Args:
        connection: the database.
        rank: the rank.
        places: step -> its place in the block, from 0.
        statistics: columns of ``trend_data``.
    """
    tiles: dict[TileKey, Cells] = {}
    if not places:
        return tiles
    columns = ", ".join(quoted(name) for name in statistics)
    ends = (rank, min(places), max(places))
    query = f"SELECT step, metric_id, target_id, {columns} FROM trend_data WHERE rank = ? AND step BETWEEN ? AND ?"
    rows = [row for row in connection.execute(query, ends) if row[0] in places]
    if not rows:
        return tiles
    table = np.array(rows, dtype=np.float64)  # None becomes NaN
    place = np.array([places[row[0]] for row in rows])
    metric, target = (np.array([row[column] for row in rows], np.int64) for column in (1, 2))
    values = _as_measured(table[:, 3:])
    groups = metric * (int(target.max()) // TILE_TARGETS + 1) + target // TILE_TARGETS
    for group in np.unique(groups):
        inside = groups == group
        here, at = place[inside], target[inside] % TILE_TARGETS
        block = int(target[inside][0]) // TILE_TARGETS
        for column, name in enumerate(statistics):
            cells = values[inside, column]
            if (cells.view(np.uint32) == ABSENT_BITS).all():
                continue
            tile = tiles[int(metric[inside][0]), name, block] = absent_cells(TILE_STEPS, TILE_TARGETS)
            tile[here, at] = cells
    _put_nan(connection, ends, places, tiles)
    return tiles


def _as_measured(values: NDArray[np.float64]) -> Cells:
    with np.errstate(over="ignore"):
        cells = values.astype(np.float32)
    cells[values >= INFINITE] = np.inf
    cells[values <= -INFINITE] = -np.inf
    cells.view(np.uint32)[np.isnan(values)] = ABSENT_BITS
    return cells


def _put_nan(
    connection: sqlite3.Connection, ends: tuple[int, int, int], places: Mapping[int, int], tiles: dict[TileKey, Cells]
) -> None:
    if not has_table(connection, "msprobe_nonfinite"):
        return
    query = """SELECT step, target_id, metric_id, statistic FROM msprobe_nonfinite
        WHERE kind = 'nan' AND rank = ? AND step BETWEEN ? AND ?"""
    for step, target, metric, statistic in connection.execute(query, ends):
        if step not in places:
            continue
        key = metric, statistic, target // TILE_TARGETS
        tile = tiles.setdefault(key, absent_cells(TILE_STEPS, TILE_TARGETS))
        tile.view(np.uint32)[places[step], target % TILE_TARGETS] = NAN_BITS


def write_tiles(connection: sqlite3.Connection, rank: int, block: int, statistics: Sequence[str]) -> None:
    """Write the tiles of one rank and block of places anew, within the transaction of the caller."""
    first = block * TILE_STEPS
    query = "SELECT step, place - ? FROM msprobe_steps WHERE place BETWEEN ? AND ?"
    places = dict(connection.execute(query, (first, first, first + TILE_STEPS - 1)))
    tiles = read_block(connection, rank, places, statistics)
    for name in ("msprobe_tiles", "msprobe_coarse"):
        connection.execute(f"DELETE FROM {name} WHERE rank = ? AND step_block = ?", (rank, block))
    keep_tiles(connection, (rank, block), {key: cells[: len(places)] for key, cells in tiles.items()})


def keep_tiles(connection: sqlite3.Connection, place: tuple[int, int], tiles: Mapping[TileKey, Cells]) -> None:
    """Insert all tiles of a rank and block of places, whole and coarse; the last block may have fewer places."""
    rank, block = place
    for name, each in (("msprobe_tiles", 1), ("msprobe_coarse", COARSE)):
        rows = (
            (key[0], key[1], rank, key[2], block, np.ascontiguousarray(extremes(cells, each)).tobytes())
            for key, cells in tiles.items()
        )
        connection.executemany(f"INSERT INTO {name} VALUES (?,?,?,?,?,?)", rows)
    connection.execute("INSERT OR REPLACE INTO msprobe_tiled VALUES (?,?)", place)


def number_steps(connection: sqlite3.Connection, steps: Iterable[int]) -> dict[int, int]:
    """Return the place of each step; new steps get the next places."""
    wanted = sorted(set(steps))
    connection.executemany(
        """INSERT OR IGNORE INTO msprobe_steps (place, step)
        SELECT coalesce(max(place), -1) + 1, ? FROM msprobe_steps""",
        ((step,) for step in wanted),
    )
    return {step: _place(connection, step) for step in wanted}


def _place(connection: sqlite3.Connection, step: int) -> int:
    return int(connection.execute("SELECT place FROM msprobe_steps WHERE step = ?", (step,)).fetchone()[0])


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether the database has a table of this name."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def ranks_of(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the ranks of ``trend_data``, ascending, without reading all of it."""
    rank = connection.execute("SELECT min(rank) FROM trend_data").fetchone()[0]
    while rank is not None:
        yield int(rank)
        rank = connection.execute("SELECT min(rank) FROM trend_data WHERE rank > ?", (rank,)).fetchone()[0]


def steps_of(connection: sqlite3.Connection, rank: int) -> Iterator[int]:
    """Yield the steps of a rank, ascending, without reading all of its rows."""
    query = "SELECT min(step) FROM trend_data WHERE rank = ? AND step > ?"
    step = connection.execute("SELECT min(step) FROM trend_data WHERE rank = ?", (rank,)).fetchone()[0]
    while step is not None:
        yield int(step)
        step = connection.execute(query, (rank, step)).fetchone()[0]
