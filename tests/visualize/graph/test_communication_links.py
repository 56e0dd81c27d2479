"""Links between the communication calls of two real ranks on gloo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe.visualize.job import Request, visualize
from tests.recordings import Recordings
from tests.visualize.databases import Tables, check, read
from tests.visualize.job_recordings import record_communication

pytestmark = [pytest.mark.torch, pytest.mark.slow]
BOTH, SEND, RECEIVE = "send_receive", "send", "receive"
# (direction on rank 0, its call, the call of rank 1)
EXPECTED = [
    (SEND, "send.0", "recv.0"),
    (SEND, "send.1", "recv.1"),
    (RECEIVE, "recv.0", "send.0"),
    (SEND, "isend.0", "irecv.1"),
    (SEND, "isend.1", "irecv.0"),
    (BOTH, "batch_isend_irecv.0", "batch_isend_irecv.0"),
    (RECEIVE, "broadcast.0", "broadcast.0"),
    (SEND, "broadcast.1", "broadcast.1"),
    *[(BOTH, f"all_reduce.{number}", f"all_reduce.{number}") for number in range(3)],
    (SEND, "reduce.0", "reduce.0"),
    (RECEIVE, "reduce.1", "reduce.1"),
    (BOTH, "all_gather.0", "all_gather.0"),
    (RECEIVE, "gather.0", "gather.0"),
    (SEND, "gather.1", "gather.1"),
    (RECEIVE, "scatter.0", "scatter.0"),
]
TURNED = {BOTH: BOTH, SEND: RECEIVE, RECEIVE: SEND}


@pytest.fixture(scope="module")
def dump(recordings: Recordings) -> Path:
    return recordings(record_communication) / "dump"


def links(tables: Tables, rank: int, source: str = "NPU") -> list[tuple[str, str, str]]:
    """(direction, call, call of the other rank) of every call that has a link, in the order of the calls."""
    found = []
    for name, row in tables.side(source, rank=rank).items():
        assert row["is_distributed"] == int(name.startswith("Distributed."))
        told = json.loads(row["matched_distributed"])
        if told:
            ((other, (_, partner)),) = told["nodes_info"].items()
            assert other == str(1 - rank)
            calls = [one.removeprefix("Distributed.").removesuffix(".forward") for one in (name, partner)]
            found.append((told["communications_type"], *calls))
    return found


def test_every_call_is_linked_to_the_one_it_meets(dump: Path, tmp_path: Path) -> None:
    tables = read(visualize(Request(target=dump, output=tmp_path)))
    check(tables)
    assert links(tables, 0) == EXPECTED
    assert sorted(links(tables, 1)) == sorted((TURNED[kind], theirs, ours) for kind, ours, theirs in EXPECTED)
    distributed = [name for name, row in tables.side(rank=0).items() if row["is_distributed"]]
    assert len(distributed) == len(EXPECTED)


@pytest.mark.parametrize("source", ["NPU", "Bench"])
def test_both_sides_of_a_compare_are_linked(dump: Path, tmp_path: Path, source: str) -> None:
    tables = read(visualize(Request(target=dump, golden=dump, output=tmp_path)))
    assert links(tables, 0, source) == EXPECTED
    (told,) = json.loads(tables.side(source)["Distributed.send.0.forward"]["matched_distributed"])[
        "nodes_info"
    ].values()
    assert told == ["0", "Distributed.recv.0.forward"]
