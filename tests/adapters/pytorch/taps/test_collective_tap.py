"""Communication between two processes, recorded with the values that really went over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.pytorch.distributed.two_rank_job import PROGRAM, Job

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RANKS = pytest.mark.parametrize("rank", [0, 1])


def values(node: Any) -> Any:
    """A node in short: tensors by their (uniform) value, plain arguments by theirs."""
    if isinstance(node, list):
        return [values(part) for part in node]
    if not isinstance(node, dict):
        return node
    if "shape" in node:
        assert node["Max"] == node["Min"]
        return node["Max"]
    if "class_type" in node:
        return [node["op"], values(node["tensor"]), node["peer"]]
    if "type" in node:
        return node.get("value", node["type"])
    return {key: values(part) for key, part in node.items()}


BLOCKING: dict[str, tuple[Any, Any]] = {
    # inputs (positional and by keyword) and outputs by rank
    "all_reduce.0": ([[1.0], [2.0]], [[3.0, "RedOpType.SUM"]] * 2),
    "all_gather.0": ([[None, 0.0], [None, 1.0]], [[[0.0, 1.0], 0.0], [[0.0, 1.0], 1.0]]),
    "reduce_scatter.0": ([[None, [1.0, 2.0]]] * 2, [[2.0, [1.0, 2.0]], [4.0, [1.0, 2.0]]]),
    "scatter.0": ([[None, [10.0, 20.0]], [None, None]], [[10.0, [10.0, 20.0], 0], [20.0, None, 0]]),
    "gather.0": ([[0.0, None], [1.0, None]], [[0.0, [0.0, 1.0], 0], [1.0, None, 0]]),
    "all_reduce.1": ([[3.0]] * 2, [[6.0, "torch.ProcessGroup"]] * 2),
    "all_reduce.2": ([[1.0], [2.0]], [[3.0, True]] * 2),
}


@RANKS
@pytest.mark.parametrize("call", BLOCKING)
def test_values_before_and_after(job: Job, call: str, rank: int) -> None:
    entry = job.data("collectives", rank)[f"Distributed.{call}.forward"]
    inputs, outputs = BLOCKING[call]
    tensors = [part for key, part in entry["input_kwargs"].items() if key.startswith("tensor")]
    assert values([*entry["input_args"], *tensors]) == inputs[rank]
    assert values(entry["output"]) == outputs[rank]


def test_point_to_point(job: Job) -> None:
    first, second = job.data("collectives", 0), job.data("collectives", 1)
    assert values(first["Distributed.send.0.forward"]["output"]) == [7.0, 1]
    assert values(second["Distributed.recv.0.forward"]["input_kwargs"]) == {"tensor": None, "src": 0}
    assert values(second["Distributed.recv.0.forward"]["output"]) == [7.0, 0]
    assert values(first["Distributed.isend.0.forward"]["input_args"]) == [5.0]
    assert values(first["Distributed.isend.0.forward"]["output"]) == [None, 1]
    assert values(second["Distributed.irecv.0.forward"]["input_args"]) == [None]
    assert values(second["Distributed.irecv.0.forward"]["output"]) == [5.0, 0]
    assert job.seen[1]["source"] == 0


@RANKS
def test_a_batch_is_one_call(job: Job, rank: int) -> None:
    data, other = job.data("collectives", rank), 1 - rank
    entry = data["Distributed.batch_isend_irecv.0.forward"]
    sent, received = [30.0 + rank, 40.0 + rank], [30.0 + other, 40.0 + other]
    expected = [["isend", sent[0], other], ["irecv", received[0], other]]
    expected += [["isend", sent[1], other], ["irecv", received[1], other]]
    assert values(entry["output"]) == [expected]
    assert values(entry["input_args"])[0][1] == ["irecv", -1.0, other]
    assert entry["output"][0][0]["tag"] == 0
    assert entry["output"][0][0]["group_id"] == "77849d8c"
    assert [name for name in data if "send.1" in name or "recv.1" in name] == []
    assert job.seen[rank]["batch"] == [[0.0] * 3, [received[1]] * 3]


@RANKS
def test_the_group_is_named(job: Job, rank: int) -> None:
    group = job.data("collectives", rank)["Distributed.all_reduce.1.forward"]["input_kwargs"]["group"]
    assert group == {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "77849d8c"}


@RANKS
def test_the_members_of_a_group_stand_in_the_header(job: Job, rank: int) -> None:
    document = job.read("collectives", rank)
    assert document["process_groups"] == [{"group_id": "77849d8c", "ranks": [0, 1]}]
    groups = {name: body.get("group_id") for name, body in document["data"].items() if "Distributed." in name}
    assert groups and set(groups.values()) == {"77849d8c"}, groups  # the default group and batches too


@RANKS
def test_a_wait_after_stop_still_counts(job: Job, rank: int) -> None:
    data = job.data("collectives", rank)
    assert values(data["Distributed.all_reduce.3.forward"]["output"]) == [1.0, True]


@RANKS
def test_never_waited_for_leaves_the_inputs(job: Job, rank: int) -> None:
    entry = job.data("collectives", rank)["Distributed.all_reduce.4.forward"]
    assert values(entry["input_args"]) == [float(rank)]
    assert "output" not in entry


@RANKS
def test_a_failing_call_leaves_its_inputs_and_the_error(job: Job, rank: int) -> None:
    entry = job.data("collectives", rank)["Distributed.broadcast.0.forward"]
    assert values(entry["input_kwargs"]) == {"src": 5}
    assert entry["error"].startswith(job.seen[rank]["error"])


@RANKS
def test_communication_has_no_backward(job: Job, rank: int) -> None:
    assert [name for name in job.data("collectives", rank) if name.endswith("backward")] == []


@RANKS
def test_the_user_sees_no_difference(job: Job, rank: int) -> None:
    seen = job.seen[rank]
    assert seen["works"] == [True, True, True, True]  # an instance of Work, of that very type, waited for, completed
    assert seen["signature"]
    assert seen["restored"]
    assert seen["wait_restored"]
    assert seen["arrived_after_stop"] == [1.0] * 3  # operations made while collecting, used afterwards
    assert seen["wrong_operation"] == "Invalid ``op"


@RANKS
def test_nothing_went_wrong_inside(job: Job, rank: int) -> None:
    assert list(job.folder.rglob("dump_error_info.log")) == []
    assert "ERROR" not in job.logs[rank]


@RANKS
def test_stacks_name_the_users_line(job: Job, rank: int) -> None:
    stacks = job.read("collectives", rank, "stack.json")
    frames = next(frames for names, frames in stacks.values() if "Distributed.scatter.0.forward" in names)
    assert "in blocking" in frames[0]
    assert "dist.scatter(part" in frames[0]
    assert frames[0].startswith(f"File {PROGRAM}, ")
