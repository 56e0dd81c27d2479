"""The graph of a parallel run against another layout: the modules of one model, and at the culprit ranks and line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.jobs.compare_options import load_mapping_options
from msprobe.visualize.job import Request, visualize
from tests.compare.conftest import Trained, train
from tests.recordings import Recordings
from tests.visualize.viewer.sources import from_both

pytestmark = [pytest.mark.torch, pytest.mark.slow]
NORM = "Module.layers.3.norm.LayerNorm.forward.0"
UP = "Module.layers.2.up.ColumnParallelLinear.forward.0"


def draw(target: Path, golden: Path, output: Path, **layouts: str) -> Path:
    return visualize(Request(target=target, golden=golden, output=output, mapping=load_mapping_options(layouts)))


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.execute(query))


@pytest.fixture
def trained(recordings: Recordings) -> Trained:
    return lambda kind, size, fault="": recordings(train, kind, size, fault) / "dump"


@pytest.fixture
def drawn(trained: Trained, tmp_path: Path) -> Path:
    sides = trained("tensor", 2, "layers.3.norm.weight"), trained("whole", 1)
    return draw(*sides, tmp_path / "out", target_parallel="tp=2")


def test_the_tree_is_that_of_one_model(trained: Trained, drawn: Path) -> None:
    modules = "SELECT node_name, up_node FROM tb_nodes WHERE data_source = '{}' AND node_type = 0"
    target, golden = (set(rows(drawn, modules.format(side))) for side in ("NPU", "Bench"))
    assert target == golden and any(name == NORM for name, _ in target)
    alone = json.loads((trained("whole", 1) / "step0" / "rank0" / "dump.json").read_text(encoding="utf-8"))["data"]
    assert {name for name, _ in target if ".forward." in name} == {
        name for name in alone if name.startswith("Module.") and ".forward." in name
    }


def test_colours_and_culprit_are_those_of_compare(trained: Trained, drawn: Path) -> None:
    sides = trained("tensor", 2, "layers.3.norm.weight"), trained("whole", 1)
    first = msprobe.compare(*sides, target_parallel="tp=2").summary.first_divergence
    assert first is not None
    ((text,),) = rows(drawn, "SELECT value FROM tb_msprobe_meta WHERE key = 'first_divergence'")
    (document,) = json.loads(text)
    assert document["node"] == first.target == NORM
    assert (document["ranks"], document["blame"], document["source"]) == (first.ranks, first.blame, first.source)
    verdicts = {
        name.removeprefix("NPU_0_0_"): (own, worst)
        for name, own, worst in rows(drawn, "SELECT id, own_verdict, rollup_verdict FROM tb_msprobe_nodes")
    }
    assert verdicts[NORM] == ("error", "error") and verdicts[UP] in (("same", "same"), ("pass", "pass"))
    ((notes,),) = rows(drawn, f"SELECT parallel_merge_info FROM tb_nodes WHERE id = 'NPU_0_0_{NORM}'")
    assert json.loads(notes) == [f"ranks to blame: {first.ranks_text}", f"source: {first.source}"]


def test_ranks_are_merged_unasked_where_compare_does(trained: Trained, tmp_path: Path) -> None:
    sides = trained("dtensor", 2, "norm.weight"), trained("plain", 1)
    path = draw(*sides, tmp_path)
    ((text,),) = rows(path, "SELECT value FROM tb_msprobe_meta WHERE key = 'first_divergence'")
    first = msprobe.compare(*sides).summary.first_divergence
    assert first is not None and json.loads(text)[0]["node"] == first.target
    assert json.loads(text)[0]["ranks"] == first.ranks == [1]
    assert rows(path, "SELECT DISTINCT rank FROM tb_nodes") == [(0,)]


@from_both
@pytest.mark.browser
def test_a_reader_sees_ranks_and_line(view: Any, drawn: Path) -> None:
    page = view(drawn)
    assert page.selected == NORM
    assert "ranks to blame: 1" in page.text("#blame")
    assert "job.py" in page.text("#culprit-line") or "parallel" in page.text("#culprit-line")
    page.press("n")
    page.until(lambda: page.selected, lambda name: name != NORM)
    assert page.all("#blame") == []
