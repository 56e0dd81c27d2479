"""Writes trend databases of any size, as a monitor of a long training makes them: norms that fall, noise, spikes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from msprobe.trend.extremes import absent_cells
from msprobe.trend.further_tables import FURTHER_TABLES, TILE_STEPS, TILE_TARGETS, keep_tiles
from msprobe.trend.growing import ENDS, GrowingDatabase, Mark, Point
from msprobe.trend.published_tables import published_tables
from msprobe.trend.targets import Targets, parameter_tags

METRIC, STATISTIC = "grad_reduced", "norm"
PARTS = ("attn.q", "attn.k", "attn.v", "attn.proj", "mlp.gate", "mlp.up", "mlp.down", "norm1", "norm2", "router")


def names(targets: int) -> list[str]:
    """Return names of weights in layers."""
    return [f"layers.{number // len(PARTS)}.{PARTS[number % len(PARTS)]}.weight" for number in range(targets)]


def write_trend(path: Path, steps: int, targets: int, ranks: int, drift: int | None = None) -> int:
    """Write a database with one statistic and return its number of cells; values move from step ``drift`` on."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-262144;")
    connection.executescript(published_tables([STATISTIC], [METRIC], ENDS) + FURTHER_TABLES)
    connection.execute("INSERT INTO global_stats VALUES (0, ?, ?, ?)", (steps - 1, ranks - 1, STATISTIC))
    connection.execute("INSERT INTO monitoring_metrics VALUES (1, ?)", (METRIC,))
    known = Targets(connection)
    for name in names(targets):
        known.add(1, (name, 0, 0), parameter_tags(name))
    connection.executemany("INSERT INTO msprobe_steps VALUES (?,?)", ((step, step) for step in range(steps)))
    scale = 1.0 + np.arange(targets) % len(PARTS)
    for rank in range(ranks):
        random = np.random.default_rng(rank)
        connection.execute("BEGIN")
        for block in range(-(-steps // TILE_STEPS)):
            here = np.arange(block * TILE_STEPS, min((block + 1) * TILE_STEPS, steps))
            values = scale * (0.1 + np.exp(-here / steps * 4))[:, None] * random.lognormal(0, 0.2, (len(here), targets))
            values[random.random(values.shape) < 1e-5] *= 1000.0
            if drift is not None:
                values[here >= drift] *= 1.02
            _write_block(connection, rank, block, here, values.astype(np.float32))
        connection.execute("COMMIT")
    connection.close()
    os.chmod(path, 0o600)
    return steps * targets * ranks


def _write_block(connection: sqlite3.Connection, rank: int, block: int, steps: np.ndarray, values: np.ndarray) -> None:
    for step, row in zip(steps.tolist(), values.tolist(), strict=True):
        connection.executemany(f"INSERT INTO trend_data VALUES ({rank},{step},?,1,?)", enumerate(row, 1))
    whole = absent_cells(len(steps), (values.shape[1] // TILE_TARGETS + 1) * TILE_TARGETS)
    whole[:, 1 : values.shape[1] + 1] = values
    blocks = whole.shape[1] // TILE_TARGETS
    parts = {(1, STATISTIC, one): whole[:, one * TILE_TARGETS : (one + 1) * TILE_TARGETS] for one in range(blocks)}
    keep_tiles(connection, (rank, block), parts)


def write_demo(path: Path, faults: bool) -> None:
    """Write the run of the pictures in the guide: 400 steps, 50 weights, 4 ranks.

    With ``faults`` rank 1 has two spikes with alerts, upper layers move from step 200 on, and NaN and infinity come.
    """
    path.unlink(missing_ok=True)
    parts = ("attn.qkv", "attn.proj", "mlp.up", "mlp.down")
    inner = [f"layers.{layer}.{part}.weight" for layer in range(12) for part in parts]
    weights = ["embed.weight", *inner, "head.weight"]
    random = np.random.default_rng(0)
    with GrowingDatabase(path) as database:
        for rank in range(4):
            with database.transaction():
                database.prepare(["norm", "max", "min"], [METRIC])
                database.add(rank, list(_demo_points(random, weights, rank, faults)))
        spikes = [(step, place) for step in (120, 250) for place in (12, 20)] if faults else []
        marks = [
            Mark(METRIC, (weights[place], 0, 0), step, STATISTIC, "spike: norm is 200 times the usual")
            for step, place in spikes
        ]
        with database.transaction():
            database.mark(1, marks)
        database.settle()


def _demo_points(random: np.random.Generator, weights: list[str], rank: int, faults: bool) -> Iterator[Point]:
    for step in range(400):
        noise = 1 + 0.1 * random.standard_normal(len(weights))
        for place, name in enumerate(weights):
            value = float(np.exp(-step / 150) * (1 + place * 0.05) * noise[place] + 0.05)
            value = _faulty(value, (step, place, rank)) if faults else value
            yield Point(METRIC, (name, 0, 0), step, {"norm": value, "max": value / 3, "min": -value / 3})


def _faulty(value: float, at: tuple[int, int, int]) -> float:
    step, place, rank = at
    if step in {120, 250} and rank == 1 and 10 < place < 30:
        value *= 200
    if step >= 200 and place >= 17:
        value *= 1 + 0.01 * (step - 199)
    if step == 333 and place > 40:
        return float("nan")
    return float("inf") if step == 350 and place > 45 else value
