"""Every way to shard a model: bit-identical training, parts of this rank with placement and mesh, nothing missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.pytorch.distributed.sharded import IDLE, KINDS, STEPS
from tests.adapters.pytorch.distributed.two_rank_job import Job

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RANKS = pytest.mark.parametrize("rank", [0, 1])
ALL = pytest.mark.parametrize("kind", KINDS)
PLACEMENTS = {
    "replicated": ([[0], [1]], [{"Replicate": {}}, {"Shard": {"dim": 0}}]),
    "tensor_parallel": ([0, 1], [{"Shard": {"dim": 0}}]),
}
LAYERS = [f"blocks.{number}.{layer}" for number in range(2) for layer in ("up", "act", "down")]


def entry_of(data: dict[str, Any], path: str, phase: str) -> dict[str, Any]:
    """The entry of a module's first call, whatever sharding has called the class."""
    (name,) = [name for name in data if name.startswith(f"Module.{path}.") and name.endswith(f".{phase}.0")]
    found: dict[str, Any] = data[name]
    return found


@RANKS
@ALL
def test_training_is_bit_identical(job: Job, kind: str, rank: int) -> None:
    seen = job.seen[rank]["sharded"][kind]
    assert seen["alone"] == seen["observed"]


@RANKS
@ALL
def test_gradients_are_those_of_the_parts(job: Job, kind: str, rank: int) -> None:
    data, wanted = job.data(kind, rank, STEPS - 1), job.seen[rank]["sharded"][kind]["gradients"]
    found = {}
    for name in wanted:
        path, _, parameter = name.rpartition(".")
        (node,) = entry_of(data, path, "parameters_grad")[parameter]
        found[name] = [node["Max"], node["Min"]]
    assert found == wanted


@RANKS
@ALL
@pytest.mark.parametrize("step", [step for step in range(STEPS) if step != IDLE])
def test_forward_and_backward_of_every_layer(job: Job, kind: str, step: int, rank: int) -> None:
    data = job.data(kind, rank, step)
    for layer in LAYERS:
        forward, backward = (entry_of(data, layer, phase) for phase in ("forward", "backward"))
        nodes = (forward["output"][0], forward["input_args"][0], backward["input"][0])
        assert all(node["Norm"] is not None for node in nodes)
        assert set(forward.get("parameters", {})) == (set() if layer.endswith("act") else {"weight", "bias"})


@RANKS
@ALL
def test_placement_and_mesh(job: Job, kind: str, rank: int) -> None:
    data = job.data(kind, rank)
    (node,) = entry_of(data, "blocks.0.up", "parameters_grad")["weight"]
    mesh, placements = PLACEMENTS.get(kind, ([0, 1], [{"Shard": {"dim": 0}}]))
    assert node["type"] == "torch.distributed.tensor.DTensor"
    assert node["shape"] == [6, 4]
    assert (node["device_mesh"], node["placements"]) == (mesh, placements)


@RANKS
@ALL
def test_only_what_was_started_is_recorded(job: Job, kind: str, rank: int) -> None:
    assert sorted(path.name for path in (job.folder / kind).iterdir()) == ["step0", "step2"]
    data = job.data(kind, rank)
    again = [name for name in data if name.startswith("Module.") and name.endswith(".forward.1")]
    assert all(data[name]["is_recompute"] for name in again)
    assert bool(again) is (kind == "checkpointed")
