"""Which ranks make one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.parallel.layout import Layout, Replica, parse_layout, replicas
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.store.reader import Place


def _ranks(count: int, step: int | None = 0) -> list[Place]:
    return [Place(Path(f"step{step}/rank{rank}/dump.json"), step, "rank", rank) for rank in range(count)]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, Layout()),
        ("tp=2", Layout(2, 1)),
        (" PP=4 , tp=2", Layout(2, 4)),
        ({"pp": 2}, Layout(1, 2)),
        (Layout(3, 3), Layout(3, 3)),
    ],
    ids=["none", "tp", "both", "dict", "layout"],
)
def test_layouts(given: Any, wanted: Layout) -> None:
    assert parse_layout(given) == wanted


@pytest.mark.parametrize("given", ["2", "tp=0", "tp=-1", "dp=3,ep=2", "tp=2,tp=3", "tp=two", "", {"tp": 1.5}], ids=str)
def test_what_is_no_layout_is_refused(given: Any) -> None:
    with pytest.raises(MsprobeException, match=r"target_parallel.*is no layout"):
        parse_layout(given, "target_parallel")


def test_data_parallel_replicas_stand_between_tensor_ranks_and_stages() -> None:
    found = replicas(_ranks(8), Layout(2, 2), "target")
    members = [
        [[place.number for place in stage] for stage in one.members] for one in found if isinstance(one, Replica)
    ]
    assert members == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    assert [place.label for place in found] == ["rank0", "rank1"]


def test_each_step_has_its_replicas() -> None:
    found = replicas([*_ranks(2, 0), *_ranks(2, 1)], Layout(2, 1), "target")
    assert [place.step for place in found] == [0, 1]


def test_one_rank_per_model_changes_nothing() -> None:
    places = _ranks(3)
    assert replicas(places, Layout(), "target") == places


@pytest.mark.parametrize(
    "places",
    [_ranks(3), _ranks(4)[1:3], [*_ranks(2), Place(Path("proc9/dump.json"), 0, "proc", 9)]],
    ids=["odd_count", "rank_missing", "process_without_rank"],
)
def test_incomplete_replicas_are_refused(places: list[Place]) -> None:
    with pytest.raises(NotComparableError, match=r"the golden run has .*multiple of 2"):
        replicas(places, Layout(2, 1), "golden run")
