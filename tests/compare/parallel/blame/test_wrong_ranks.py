"""A wrong value of merged ranks is blamed on those ranks whose parts of it are wrong, as far as these can be judged."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.jobs.compare_options import load_mapping_options
from msprobe.report.summary_text import summary_text
from tests.compare.conftest import Trained

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize(
    ("kind", "layout", "fault", "ranks", "why"),
    [
        ("tensor", "tp=2", "layers.3.norm.weight", [1], "what the other ranks hold"),
        ("tensor", "tp=2", "layers.2.up.weight", [0, 1], "nothing recorded tells which"),
        ("pipeline", "pp=2", "layers.0.up.weight", [1], "no other rank holds it"),
    ],
    ids=["copy", "cut", "stage"],
)
def test_against_one_process(trained: Trained, kind: str, layout: str, fault: str, ranks: list[int], why: str) -> None:
    found = msprobe.compare(trained(kind, 2, fault), trained("whole", 1), target_parallel=layout)
    first = found.summary.first_divergence
    assert first is not None and first.ranks == ranks and why in first.blame


def test_a_cut_of_which_the_golden_run_has_the_same_parts(trained: Trained) -> None:
    """The part of each rank can then be judged by itself."""
    sides = trained("tensor", 2, "layers.2.up.weight"), trained("tensor", 2)
    first = msprobe.compare(*sides, target_parallel="tp=2", golden_parallel="tp=2").summary.first_divergence
    assert first is not None and first.slot == "parameters.weight" and first.ranks == [1]


def test_where_no_ranks_are_merged_none_is_blamed(trained: Trained) -> None:
    rank = trained("tensor", 2, "layers.3.norm.weight") / "step0" / "rank1"
    first = msprobe.compare(rank, trained("tensor", 2) / "step0" / "rank1").summary.first_divergence
    assert first is not None and (first.rank, first.ranks, first.ranks_text) == (1, [], "")


def test_every_report_names_them(trained: Trained, tmp_path: Path) -> None:
    page, cases = tmp_path / "page.html", tmp_path / "cases.xml"
    sides = trained("tensor", 2, "layers.3.norm.weight"), trained("whole", 1)
    summary = msprobe.compare(*sides, target_parallel="tp=2", html=page, junit=cases).summary
    text = summary_text(summary)
    assert "First divergence in step 0, rank 1: Module.layers.3.norm" in text
    assert "  ranks:  1 (what the other ranks hold of it is as in the golden run)" in text
    for written in (page, cases):
        assert "1 (what the other ranks hold of it is as in the golden run)" in written.read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", ["layers.3.norm.weight", "layers.2.up.weight"])
def test_the_analysis_of_calls_says_the_same(trained: Trained, tmp_path: Path, fault: str) -> None:
    sides = trained("tensor", 2, fault), trained("whole", 1)
    first = msprobe.compare(*sides, target_parallel="tp=2").summary.first_divergence
    found = diff_analyze(*sides, tmp_path, mapping=load_mapping_options({"target_parallel": "tp=2"}))
    ((call,),) = found.document.values()
    assert first is not None
    assert (call["op_name"], call["ranks"], call["blame"]) == (first.target, first.ranks, first.blame)
    assert (call["source"], call["module"], call["reason"]) == (first.source, first.module, first.reason)
    assert f"  ranks: {first.ranks_text}" in found.lines
