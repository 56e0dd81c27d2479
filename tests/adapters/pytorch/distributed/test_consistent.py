"""``consistent_``: every layout of a model begins with the same numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe.core.errors import MsprobeException
from msprobe.pytorch.parallel import consistent_
from tests.adapters.pytorch.distributed.consistent_job import SHAPES, model
from tests.ranks import run_ranks

pytestmark = pytest.mark.torch
MODULE = "tests.adapters.pytorch.distributed.consistent_job"


def filled(seed: int = 3) -> dict[str, torch.Tensor]:
    """Return the parameters of the model on one process."""
    whole = model(0, 1)
    whole.placed = nn.Parameter(torch.zeros(5, 3))
    consistent_(whole, seed=seed)
    return {name: value.detach() for name, value in whole.named_parameters()}


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_parts_of_any_layout_make_the_same_whole(size: int, tmp_path: Path) -> None:
    run_ranks(MODULE, size, lambda rank: [rank, size, tmp_path])
    ranks = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(size)]
    for name, axis in (("rows", 0), ("columns", 1), ("placed", 0)):
        assert torch.equal(torch.cat([values[name] for values in ranks], axis), filled()[name]), name
    assert all(torch.equal(values["norm.weight"], filled()["norm.weight"]) for values in ranks)


def test_numbers_follow_from_seed_and_name() -> None:
    first, again, other = filled(), filled(), filled(seed=4)
    assert all(torch.equal(first[name], again[name]) and not torch.equal(first[name], other[name]) for name in first)
    assert first["rows"].abs().max() <= 1 / math.sqrt(SHAPES["rows"][1])
    assert (first["norm.weight"] - 1).abs().max() <= 0.1


def test_a_stage_names_its_layers_as_the_whole_model() -> None:
    layers = [nn.Linear(3, 3) for _ in range(3)]
    whole, stage = (
        nn.ModuleDict({"layers": nn.ModuleList(layers)}),
        nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(3, 3)])}),
    )
    consistent_(whole)
    consistent_(stage, names=lambda name: name.replace("layers.0", "layers.2"))
    assert torch.equal(stage["layers"][0].weight, layers[2].weight)
    assert not torch.equal(stage["layers"][0].weight, layers[0].weight)


def test_inputs_and_what_is_no_float() -> None:
    first, second, tokens = torch.empty(2, 3), torch.empty(2, 3, dtype=torch.float64), torch.arange(4)
    consistent_(first, name="hidden")
    consistent_(second, name="hidden")
    consistent_(tokens)
    assert torch.equal(first.double(), second) and torch.equal(tokens, torch.arange(4))
    with pytest.raises(MsprobeException, match="consistent_: expected a model or a tensor, got 3"):
        consistent_(3)  # type: ignore[arg-type]
