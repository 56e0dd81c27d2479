"""Where two runs part: the first step and tensor beyond rounding; what cannot be compared is never the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.numerics.statistic_cells import relative_tolerance
from msprobe.trend.growing import GrowingDatabase, Point
from msprobe.visualize.trend_view.answers import label, words
from msprobe.visualize.trend_view.parting import find_parting
from msprobe.visualize.trend_view.runs import Runs
from msprobe.visualize.trend_view.store import TrendStore
from tests.visualize.trend_view.databases import METRIC, SPIKE, write_run


def _run(path: Path, values: dict[tuple[int, str], float]) -> TrendStore:
    with GrowingDatabase(path) as database, database.transaction():
        database.prepare(["norm"], [METRIC, "actv"])
        points = [
            Point(name.split(":")[0], (name.split(":")[1], 0, 0), step, {"norm": one})
            for (step, name), one in values.items()
        ]
        database.add(0, points)
    return TrendStore(path)


def _parted(
    tmp_path: Path, target: dict[tuple[int, str], float], golden: dict[tuple[int, str], float]
) -> tuple[Runs, object]:
    runs = Runs(_run(tmp_path / "t.trend.db", target), _run(tmp_path / "g.trend.db", golden))
    return runs, find_parting(runs)


def test_the_first_difference_is_named(tmp_path: Path) -> None:
    runs = Runs(
        TrendStore(write_run(tmp_path / "t.trend.db", faults=True)), TrendStore(write_run(tmp_path / "g.trend.db"))
    )
    parting = find_parting(runs)
    first = parting.first
    assert first is not None
    assert (first.step, first.rank, label(runs.layers(METRIC)[first.layer])) == SPIKE
    assert first.target == pytest.approx(1000 * first.golden) and "step 12, rank 1" in words(runs, parting)


def test_rounding_is_no_difference(tmp_path: Path) -> None:
    small = relative_tolerance() / 2
    runs, parting = _parted(
        tmp_path, {(0, "actv:a"): 1.0 + small, (1, "actv:a"): 2.0}, {(0, "actv:a"): 1.0, (1, "actv:a"): 2.0}
    )
    assert parting.first is None and parting.compared == 2 and "2 values agree" in words(runs, parting)


def test_in_a_step_what_is_computed_first_comes_first(tmp_path: Path) -> None:
    golden = {(0, f"{METRIC}:w"): 1.0, (0, "actv:b"): 1.0, (0, "actv:a"): 1.0}  # b is measured before a
    runs, parting = _parted(tmp_path, dict.fromkeys(golden, 2.0), golden)
    assert parting.first.metric == "actv" and label(runs.layers("actv")[parting.first.layer]) == "b"


def test_nan_on_one_side_is_a_difference_and_on_both_is_none(tmp_path: Path) -> None:
    nan = float("nan")
    _, parting = _parted(tmp_path, {(0, "actv:a"): nan, (1, "actv:a"): nan}, {(0, "actv:a"): nan, (1, "actv:a"): 1.0})
    assert parting.first.step == 1 and parting.first.times == float("inf")


def test_what_one_run_has_alone_is_counted_and_nothing_in_common_is_told(tmp_path: Path) -> None:
    runs, parting = _parted(tmp_path, {(0, "actv:a"): 1.0}, {(0, "actv:b"): 1.0})
    assert (parting.first, parting.compared, parting.alone) == (None, 0, 2)
    assert "no values in common" in words(runs, parting)
