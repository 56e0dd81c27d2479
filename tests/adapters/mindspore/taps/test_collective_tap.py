"""Two real processes under ``msrun``: what they tell each other is recorded, by rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ranks import run_mindspore_ranks

PROGRAM = Path(__file__).parents[1] / "programs" / "collectives.py"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The documents of both processes, as ``step0/rank1``."""
    folder = tmp_path_factory.mktemp("collectives")
    run_mindspore_ranks(PROGRAM, 2, folder / "dump")
    found = (folder / "dump").glob("step*/*/dump.json")
    return {f"{path.parent.parent.name}/{path.parent.name}": json.loads(path.read_text()) for path in found}


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_two_processes(rank: int, dumps: dict[str, Any]) -> None:
    assert sorted(dumps) == ["step0/rank0", "step0/rank1", "step1/rank0", "step1/rank1"]
    data = dumps[f"step0/rank{rank}"]["data"]
    assert list(data) == [
        "MintDistributed.all_reduce.0.forward",
        "MintDistributed.all_reduce.1.forward",
        "MintDistributed.all_gather.0.forward",
        "MintDistributed.all_reduce.2.forward",
        "Distributed.all_reduce.0.forward",
    ]
    for call in ("MintDistributed.all_reduce.0.forward", "MintDistributed.all_reduce.1.forward"):
        assert data[call]["input_args"][0]["Max"] == rank + 1
        assert data[call]["output"][0]["Max"] == 3
    gathering = data["MintDistributed.all_gather.0.forward"]
    assert gathering["input_args"][0] is None
    assert [part["Max"] for part in gathering["output"][0]] == [5, 6]


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_the_members_of_each_group_are_named_once(rank: int, dumps: dict[str, Any]) -> None:
    document = dumps[f"step0/rank{rank}"]
    for step in (0, 1):  # the default group, and one that the program has made, have the same members
        document = dumps[f"step{step}/rank{rank}"]
        assert document["process_groups"] == [{"group_id": "77849d8c", "ranks": [0, 1]}]
        assert {body["group_id"] for body in document["data"].values()} == {"77849d8c"}


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_communication_function_that_fails_keeps_its_input_and_error(rank: int, dumps: dict[str, Any]) -> None:
    failed = dumps[f"step0/rank{rank}"]["data"]["Distributed.all_reduce.0.forward"]
    assert failed["input_args"][0]["Max"] == 3  # the tensor that was reduced in place before
    assert failed["error"].startswith("RuntimeError: ") and "output" not in failed


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_two_processes_of_msadapter_have_pytorchs_names_and_results(rank: int, dumps: dict[str, Any]) -> None:
    dump = dumps[f"step1/rank{rank}"]
    data = dump["data"]
    assert dump["framework"] == "mindtorch"
    assert list(data) == [f"Distributed.{call}.forward" for call in ("all_reduce.0", "all_reduce.1", "all_gather.0")]
    for call in ("Distributed.all_reduce.0.forward", "Distributed.all_reduce.1.forward"):
        assert data[call]["input_args"][0]["Max"] == rank + 1
        assert data[call]["output"][0]["Max"] == 3
    gathering = data["Distributed.all_gather.0.forward"]
    assert gathering["input_args"] == [None] and gathering["input_kwargs"]["tensor"]["Max"] == rank + 5
    assert [part["Max"] for part in gathering["output"][0]] == [5, 6]
