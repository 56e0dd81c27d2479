"""The generated databases of trends: every cell as its tiles and rows say; the pictures of a large one are fast."""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from msprobe.visualize.trend_view.answers import Picture, picture
from msprobe.visualize.trend_view.runs import Range, Runs
from msprobe.visualize.trend_view.store import TrendStore
from tests.rules.tree import ROOT


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_trend", ROOT / "benchmarks" / "generate_trend.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


def _wanted(layout: str, third: int, ends: tuple[int, int]) -> Picture:
    return Picture("target", "grad_reduced", "norm", layout, third, ends, (0, 10_000), (60, 40))


def test_tiles_coarse_tiles_and_rows_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.trend.db"
    assert _generator().write_trend(path, 700, 70, 2) == 98_000
    runs = Runs(TrendStore(path))
    whole = Range(np.arange(700), np.arange(2), np.arange(70))
    cells = runs.cells("target", "grad_reduced", "norm", whole)
    seen = [picture(runs, _wanted(layout, 1, (0, 700))) for layout in ("step-layer", "step-rank")]
    with sqlite3.connect(path) as connection:  # the same from the rows
        connection.execute("DELETE FROM msprobe_tiled")
    again = Runs(TrendStore(path))
    assert np.array_equal(again.cells("target", "grad_reduced", "norm", whole), cells)
    connection.close()
    for content, layout in zip(seen, ("step-layer", "step-rank"), strict=True):
        head, _, body = content.partition(b"\n")
        assert b'"each":[16,' in head and float(np.frombuffer(body, "<f4").max()) == pytest.approx(
            float(cells[1].max() if layout == "step-layer" else cells[:, :, 1].max())
        )


@pytest.mark.speed
def test_pictures_of_forty_million_cells_take_a_tenth_of_a_second(tmp_path: Path) -> None:
    path = tmp_path / "big.trend.db"
    _generator().write_trend(path, 10_000, 500, 8)
    began = time.perf_counter()
    runs = Runs(TrendStore(path))
    picture(runs, _wanted("step-layer", 0, (0, 10_000)))
    assert time.perf_counter() - began < 2.0
    for layout in ("step-layer", "step-rank", "rank-layer"):
        began = time.perf_counter()
        picture(runs, _wanted(layout, 3, (0, 10_000)))
        assert time.perf_counter() - began < 0.1, layout
