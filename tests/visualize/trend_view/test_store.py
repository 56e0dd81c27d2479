"""Cells of a trend database: from tiles, from rows, from a database of another tool."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from msprobe.core.errors import ReadError
from msprobe.trend.extremes import is_absent
from msprobe.visualize.trend_view.runs import Range, Runs
from msprobe.visualize.trend_view.store import TrendStore, find_trends, has_published_tables, natural
from tests.visualize.trend_view.databases import METRIC, NOT_A_NUMBER, RANKS, SPIKE, STEPS, value_of, write_run


def _all(runs: Runs) -> Range:
    return Range(np.arange(len(runs.steps)), np.arange(len(runs.ranks)), np.arange(len(runs.layers(METRIC))))


@pytest.mark.parametrize("kind", ["tiles", "rows", "published"])
def test_every_cell_is_found(kind: str, tmp_path: Path) -> None:
    path = write_run(tmp_path / "a.trend.db", faults=True, settled=kind == "tiles")
    if kind == "published":  # a database of another tool has none of the further tables
        with sqlite3.connect(path) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'msprobe%' AND type = 'table'")
            for (name,) in names.fetchall():
                connection.execute(f"DROP TABLE {name}")
    runs = Runs(TrendStore(path))
    cells = runs.cells("target", METRIC, "norm", _all(runs))
    assert cells.shape == (RANKS, STEPS, 14)
    names = [name for name, _, _ in runs.layers(METRIC)]
    for rank in range(RANKS):
        for step in (0, 11, 19, 39):
            for layer, name in enumerate(names):
                expected = value_of(name, step, rank) * (
                    1.05 if rank == 0 and step >= 20 and name == "head.weight" else 1
                )
                assert cells[rank, step, layer] == pytest.approx(expected, rel=1e-6)
    assert cells[SPIKE[1], SPIKE[0], names.index(SPIKE[2])] > 100
    odd = cells[NOT_A_NUMBER[1], NOT_A_NUMBER[0], names.index(NOT_A_NUMBER[2])]
    assert math.isnan(odd) and is_absent(np.array([odd])).item() == (kind == "published")


def test_names_are_sorted_as_trees_with_numbers(tmp_path: Path) -> None:
    names = ["layers.10.a", "layers.2.b", "layers.2.a", "embed.w", "layers.2", "head.w"]
    ordered = sorted(((name, 0, 0) for name in names), key=natural)
    assert [name for name, _, _ in ordered] == [
        "embed.w",
        "head.w",
        "layers.2",
        "layers.2.a",
        "layers.2.b",
        "layers.10.a",
    ]


def test_what_is_no_trend_database(tmp_path: Path) -> None:
    (tmp_path / "a.trend.db").write_text("no database")
    with pytest.raises(ReadError, match="msprobe data2db"):
        TrendStore(tmp_path / "a.trend.db")
    sqlite3.connect(tmp_path / "b.trend.db").execute("CREATE TABLE x (y)")
    with pytest.raises(ReadError, match="no table"):
        TrendStore(tmp_path / "b.trend.db")
    assert len(find_trends(tmp_path)) == 2


def test_a_damaged_database_whose_error_is_no_text_is_no_trend(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE wrong_name (a INTEGER)")
        connection.commit()
    damaged = path.read_bytes().replace(b"wrong_name", b"wrong\xd9name").replace(b"CREATE TABLE", b"CREATE TABLX")
    path.write_bytes(damaged)
    assert not has_published_tables(path)
