"""Tensors that say on which ranks they lie (DTensor) are merged without being asked for; nothing else is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.compare.layout_from_records import recorded_layout
from msprobe.compare.parallel.layout import Layout
from msprobe.core.store.reader import find_dumps
from tests.compare.conftest import Trained

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LAYOUTS = {"dtensor": Layout(tp=2), "fsdp": Layout(), "tensor": Layout(), "pipeline": Layout()}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_what_is_told(trained: Trained, kind: str) -> None:
    """Fully sharded data parallelism places parameters too, of models that are whole on each rank."""
    assert recorded_layout(find_dumps(trained(kind, 2))) == LAYOUTS[kind]


@pytest.mark.parametrize("turned", [False, True], ids=["spread_target", "spread_golden"])
def test_ranks_are_merged_as_when_told_by_hand(trained: Trained, turned: bool) -> None:
    sides = (trained("plain", 1), trained("dtensor", 2))[:: 1 if turned else -1]
    found = msprobe.compare(*sides)
    asked = msprobe.compare(*sides, **{"golden_parallel" if turned else "target_parallel": "tp=2"})
    assert (found.verdict, found.summary.counts) == (asked.verdict, asked.summary.counts)
    assert found.summary.first_divergence is None and found.summary.counts.error == 0
    assert not found.summary.unpaired
    assert [row.level for row in found.rows()] == [row.level for row in asked.rows()]


def test_a_fault_on_one_rank_is_named(trained: Trained, tmp_path: Path) -> None:
    sides = trained("dtensor", 2, "up.weight"), trained("plain", 1)
    found = msprobe.compare(*sides).summary.first_divergence
    assert found is not None and (found.target, found.slot) == ("Module.up.Linear.forward.0", "parameters.weight")
    ((rank, (call,)),) = diff_analyze(*sides, tmp_path).document.items()
    assert (rank, call["op_name"]) == ("rank_0", "Module.up.Linear.forward.0")


def test_equal_layouts_and_lost_ranks_stay_as_they_are(trained: Trained, tmp_path: Path) -> None:
    spread = trained("dtensor", 2)
    assert sorted({outcome.label for outcome in msprobe.compare(spread, spread).outcomes}) == ["rank0", "rank1"]
    shutil.copytree(spread / "step0" / "rank0", tmp_path / "step0" / "rank0")
    shutil.copytree(spread / "step0" / "rank1", tmp_path / "step0" / "rank2")
    assert recorded_layout(find_dumps(tmp_path)) == Layout()
