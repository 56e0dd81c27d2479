"""Tensors spread over a mesh: what this process holds of them, and how they are placed."""

from __future__ import annotations

import pytest
import torch

from tests.adapters.pytorch.distributed.two_rank_job import Job

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RANKS = pytest.mark.parametrize("rank", [0, 1])
OUTPUTS = {  # global shape, placement, and the largest local value on each rank
    "Functional.relu.0": ([4, 2], {"Shard": {"dim": 0}}, [3.0, 7.0]),
    "Functional.relu.1": ([3], {"Replicate": {}}, [3.0, 3.0]),
    "Tensor.sum.0": ([], {"Partial": {"reduce_op": "sum"}}, [6.0, 22.0]),
    "Functional.softplus.0": ([], {"Replicate": {}}, [28.0, 28.0]),
}


@RANKS
@pytest.mark.parametrize("call", OUTPUTS)
def test_placement(job: Job, call: str, rank: int) -> None:
    node = job.data("placements", rank)[f"{call}.forward"]["output"][0]
    shape, placement, largest = OUTPUTS[call]
    assert node["type"] == "torch.distributed.tensor.DTensor"
    assert node["shape"] == shape
    assert node["device_mesh"] == [0, 1]
    assert node["placements"] == [placement]
    assert node["Max"] == pytest.approx(largest[rank])


@RANKS
def test_the_file_holds_the_local_part(job: Job, rank: int) -> None:
    node = job.data("placements", rank)["Functional.relu.0.forward"]["output"][0]
    folder = job.folder / "placements" / "step0" / f"rank{rank}" / "dump_tensor_data"
    saved = torch.load(folder / node["data_name"], weights_only=True)
    assert saved.tolist() == torch.arange(8.0).reshape(4, 2)[2 * rank : 2 * rank + 2].tolist()


@RANKS
@pytest.mark.parametrize("kind", ["coalesced", "coalesced_later"])
def test_calls_that_run_together_have_their_results(job: Job, rank: int, kind: str) -> None:
    assert job.seen[rank][kind] == [[3.0] * 3, [5.0] * 3]
    entries = job.data(kind, rank)
    reduced = [entry for name, entry in entries.items() if name.startswith("Distributed")]
    assert [entry["input_args"][0]["Max"] for entry in reduced] == [rank + 1.0, rank + 2.0]
    assert [entry["output"][0]["Max"] for entry in reduced] == [3.0, 5.0]
    assert list(entries) == [
        *[f"Distributed.all_reduce.{number}.forward" for number in range(2)],
        "Torch.neg.0.forward",
    ]


@RANKS
def test_its_memory_is_that_of_the_local_part(job: Job, rank: int) -> None:
    node = job.data("placements", rank)["Functional.relu.0.forward"]["output"][0]
    number, _, version = node["memory"].partition(".")
    assert (number.isdigit(), version) == (True, "0")
