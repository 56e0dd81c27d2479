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
    ("places", "layout", "said"),
    [
        (_ranks(3), Layout(2), "tp=2,pp=1 is 2 ranks, which does not divide 3"),
        (_ranks(6), Layout(2, 2), "tp=2,pp=2 is 4 ranks, which does not divide 6"),
        (_ranks(4)[1:3], Layout(2), "is 2 ranks: no records of rank 0, 3"),
        ([*_ranks(4)[:2], _ranks(4)[3]], Layout(2, 2), "is 4 ranks: no records of rank 2"),
        ([*_ranks(2), Place(Path("proc9/dump.json"), 0, "proc", 9)], Layout(2), "one of these is a process without"),
        (_ranks(12)[2:3], Layout(4, 3), "no records of rank 0, 1, 3, 4, 5, 6, 7, 8, ..."),
    ],
    ids=["odd-count", "wrong-product", "ends-missing", "one-missing", "process-without-rank", "many-missing"],
)
def test_incomplete_replicas_are_refused_in_one_line(places: list[Place], layout: Layout, said: str) -> None:
    with pytest.raises(NotComparableError) as raised:
        replicas(places, layout, "golden run")
    text = str(raised.value)
    assert "the golden run has rank" in text and " in step 0; " in text and said in text
    assert "\n" not in text


def test_whole_replicas_stay_where_others_lack_a_rank() -> None:
    """With tp=2 and rank 2 missing, ranks 0 and 1 are one model, and 4 and 5 another one."""
    lost: list[str] = []
    found = replicas([*_ranks(2), *_ranks(6)[3:]], Layout(2), "target", lost)
    members = [[place.number for place in one.members[0]] for one in found if isinstance(one, Replica)]
    assert members == [[0, 1], [4, 5]]
    assert [place.number for place in found] == [0, 2]
    (line,) = lost
    assert "tp=2,pp=1 is 2 ranks: no records of rank 2; the replicas that are whole are compared" in line


def test_ranks_that_share_parameters_are_data_parallel_ones() -> None:
    assert parse_layout("zero=4") == Layout(dp=4, zero=4)
    assert parse_layout("dp=4,zero=2") == Layout(dp=4, zero=2)
    with pytest.raises(MsprobeException, match=r"zero=3 does not divide dp=4"):
        parse_layout("dp=4,zero=3")
    (found,) = replicas(_ranks(4), parse_layout("dp=4,zero=2"), "target")
    assert isinstance(found, Replica) and found.sharing == 2
