"""Data-parallel and fully sharded training: recorded whole, and not changed by a single bit."""

from __future__ import annotations

import pytest

from tests.adapters.pytorch.distributed.two_rank_job import Job

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RANKS = pytest.mark.parametrize("rank", [0, 1])
LAYERS = {"ddp": "Module.module", "fsdp": "Module"}


@RANKS
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_training_is_bit_identical(job: Job, kind: str, rank: int) -> None:
    alone, observed = job.seen[rank][kind]
    assert alone == observed


@RANKS
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_every_layer_forward_backward_and_gradients(job: Job, kind: str, rank: int) -> None:
    data = job.data(kind, rank, 1)
    first = "FSDPLinear" if kind == "fsdp" else "Linear"
    for layer in (f"first.{first}", "second.0.Linear", "second.2.Linear"):
        stem = f"{LAYERS[kind]}.{layer}"
        forward, backward = data[f"{stem}.forward.0"], data[f"{stem}.backward.0"]
        gradients = data[f"{stem}.parameters_grad.0"]
        assert set(forward["parameters"]) == set(gradients) == {"weight", "bias"}
        nodes = [*forward["input_args"], *forward["output"], *backward["input"]]
        nodes += [*forward["parameters"].values(), *(parts[0] for parts in gradients.values())]
        assert all(node["Norm"] is not None for node in nodes)


@RANKS
def test_a_shard_is_described_as_such(job: Job, rank: int) -> None:
    data = job.data("fsdp", rank)
    weight = data["Module.first.FSDPLinear.forward.0"]["parameters"]["weight"]
    gradient = data["Module.first.FSDPLinear.parameters_grad.0"]["weight"][0]
    for node in (weight, gradient):
        assert node["type"] == "torch.distributed.tensor.DTensor"
        assert node["shape"] == [6, 4]
        assert node["device_mesh"] == [0, 1]
        assert node["placements"] == [{"Shard": {"dim": 0}}]
    assert [weight["Max"], weight["Min"]] == pytest.approx(job.seen[rank]["shards"])


@RANKS
def test_gradients_are_those_of_the_shards(job: Job, rank: int) -> None:
    data = job.data("fsdp", rank, 1)
    found = []
    for layer in ("first.FSDPLinear", "second.0.Linear", "second.2.Linear"):
        gradients = data[f"Module.{layer}.parameters_grad.0"]
        nodes = [gradients[key][0] for key in ("weight", "bias")]
        assert {node["type"] for node in nodes} == {"torch.distributed.tensor.DTensor"}
        found += [[node["Max"], node["Min"]] for node in nodes]
    assert found == job.seen[rank]["gradients"]


def test_shards_differ_by_rank(job: Job) -> None:
    name = "Module.first.FSDPLinear.forward.0"
    nodes = [job.data("fsdp", rank)[name]["parameters"]["weight"] for rank in (0, 1)]
    assert nodes[0]["Max"] != nodes[1]["Max"]


@RANKS
def test_communication_of_shards_is_no_recomputation(job: Job, rank: int) -> None:
    found = {name: body for name, body in job.data("fsdp", rank).items() if name.startswith("Distributed.")}
    assert len(found) >= 4
    assert [name for name, body in found.items() if "is_recompute" in body] == []
