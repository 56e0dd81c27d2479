"""Links between the communication calls of two real ranks of MindSpore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe.visualize.job import Request, visualize
from tests.ranks import run_mindspore_ranks
from tests.visualize.databases import check, read

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]
BOTH, SEND, RECEIVE = "send_receive", "send", "receive"
EXPECTED = [
    ("all_reduce.0", BOTH, BOTH),
    ("all_reduce.1", BOTH, BOTH),
    ("all_reduce.2", BOTH, BOTH),
    ("broadcast.0", RECEIVE, SEND),
    ("broadcast.1", SEND, RECEIVE),
    ("all_gather.0", BOTH, BOTH),
]


@pytest.mark.matrix("wide")
def test_every_call_is_linked_to_the_one_it_meets(tmp_path: Path) -> None:
    run_mindspore_ranks(Path(__file__).parents[1] / "mindspore_collectives.py", 2, tmp_path / "dump")
    tables = read(visualize(Request(target=tmp_path / "dump", output=tmp_path / "out")))
    check(tables)
    for rank in (0, 1):
        calls = [row for row in tables.side(rank=rank).values() if row["is_distributed"]]
        assert [(row["node_type"], row["up_node"]) for row in calls] == [("1", "Cell.0.Talk.forward.0")] * len(EXPECTED)
        for row, (call, *directions) in zip(calls, EXPECTED, strict=True):
            name = f"MintDistributed.{call}.forward"
            assert row["node_name"] == name
            told = json.loads(row["matched_distributed"])
            assert told == {"communications_type": directions[rank], "nodes_info": {str(1 - rank): ["Nan", name]}}
