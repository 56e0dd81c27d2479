"""``FullyShardedDataParallel``: layers have their own gradients, though autograd knows the flat parameter alone."""

from __future__ import annotations

import pytest

from tests.adapters.pytorch.distributed.flat import KINDS
from tests.adapters.pytorch.distributed.two_rank_job import Job

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RANKS = pytest.mark.parametrize("rank", [0, 1])
ALL = pytest.mark.parametrize("kind", KINDS)
SHAPES = {"up.weight": [5, 3], "up.bias": [5], "down.weight": [3, 5], "down.bias": [3]}


@RANKS
@ALL
def test_training_is_bit_identical(job: Job, kind: str, rank: int) -> None:
    seen = job.seen[rank]["flat"][kind]
    assert seen["alone"] == seen["observed"]


@RANKS
@ALL
def test_gradients_are_those_of_the_layers(job: Job, kind: str, rank: int) -> None:
    """As this rank has them, before they are reduced."""
    data, wanted = job.data(kind, rank), job.seen[rank]["flat"]["gradients"]
    entries = {name: node for name, node in data.items() if ".parameters_grad." in name}
    tolerance = 0.05 if kind == "flat_mixed_precision" else 1e-5
    assert len(entries) == 2
    for path, shape in SHAPES.items():
        layer, key = path.split(".")
        (entry,) = (node for name, node in entries.items() if f".{layer}." in name)
        assert entry[key][0]["shape"] == shape
        assert [entry[key][0]["Max"], entry[key][0]["Min"]] == pytest.approx(wanted[path], rel=tolerance, abs=tolerance)


@RANKS
@ALL
def test_parameters_are_whole_in_the_forward(job: Job, kind: str, rank: int) -> None:
    for path, shape in SHAPES.items():
        layer, key = path.split(".")
        (entry,) = (
            node
            for name, node in job.data(kind, rank).items()
            if f".{layer}." in name and name.endswith(".Linear.forward.0")
        )
        assert entry["parameters"][key]["shape"] == shape
