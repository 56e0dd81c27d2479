"""Differences of whole ranks that the search and the pictures share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.trend.extremes import extremes
from msprobe.trend.further_tables import COARSE, TILE_STEPS
from msprobe.visualize.trend_view.kept_differences import KeptDifferences
from msprobe.visualize.trend_view.parting import find_parting
from msprobe.visualize.trend_view.runs import Range, Runs
from msprobe.visualize.trend_view.store import TrendStore
from tests.visualize.trend_view.databases import write_run

KEY = ("grad_reduced", "norm", 0)


def test_a_plane_is_there_when_all_of_its_blocks_are() -> None:
    steps = TILE_STEPS * 2 + 10
    cells = np.random.default_rng(0).normal(size=(steps, 3)).astype(np.float32)
    kept = KeptDifferences(steps)
    assert kept.missing(KEY).tolist() == [0, 1, 2]
    kept.put(KEY, TILE_STEPS * 2, cells[TILE_STEPS * 2 :])
    kept.put(KEY, 0, cells[:TILE_STEPS])
    assert kept.plane(KEY) is None
    assert kept.missing(KEY).tolist() == [1]
    kept.put(KEY, TILE_STEPS, cells[TILE_STEPS : TILE_STEPS * 2])
    found = kept.plane(KEY)
    assert found is not None
    np.testing.assert_array_equal(found, extremes(cells, COARSE))


@pytest.mark.parametrize("ask", [KeptDifferences.missing, KeptDifferences.plane])
def test_the_plane_that_was_not_asked_for_lately_goes_first(ask: Any) -> None:
    cells = np.ones((TILE_STEPS, 4), np.float32)
    kept = KeptDifferences(TILE_STEPS, most_bytes=2 * TILE_STEPS // COARSE * 4 * 4)
    keys = [(*KEY[:2], rank) for rank in range(3)]
    for key in keys[:2]:
        kept.put(key, 0, cells)
    ask(kept, keys[0])
    kept.put(keys[2], 0, cells)
    assert [kept.plane(key) is None for key in keys] == [False, True, False]


def test_the_search_leaves_what_pictures_ask_for(tmp_path: Path) -> None:
    stores = [
        TrendStore(write_run(tmp_path / f"{name}.trend.db", faults=name == "target", steps=range(TILE_STEPS + 44)))
        for name in ("target", "golden")
    ]
    runs, alone = Runs(*stores), Runs(*stores)
    assert find_parting(runs).first is not None
    names = KEY[:2]
    layers = np.arange(len(runs.layers(KEY[0])))
    for rank in range(len(runs.ranks)):
        whole = runs.keep_differences(names, rank)
        np.testing.assert_array_equal(whole, alone.keep_differences(names, rank))
        exact = alone.differences(*names, Range(np.arange(len(alone.steps)), np.array([rank]), layers))[0]
        np.testing.assert_array_equal(whole, extremes(exact, COARSE))
        few = alone.coarse_cells("difference", names, rank, (0, len(alone.steps)), layers[3:5])
        assert few is not None
        np.testing.assert_array_equal(few, whole[:, 3:5])


def test_a_line_has_the_cells_of_both_runs_and_their_differences(tmp_path: Path) -> None:
    runs = Runs(*(TrendStore(write_run(tmp_path / f"{name}.trend.db", faults=name == "t")) for name in ("t", "g")))
    part = Range(np.arange(len(runs.steps)), np.array([0]), np.array([2]))
    found = runs.sides(*KEY[:2], part)
    for cells, side in zip(found, ("target", "golden", "difference"), strict=True):
        np.testing.assert_array_equal(cells, runs.cells(side, *KEY[:2], part))
    assert len(Runs(runs.stores[0]).sides(*KEY[:2], part)) == 1
