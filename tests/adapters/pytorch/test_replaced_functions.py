"""Every function that is replaced says of itself what its original says, at every level."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import nn

from tests.adapters.replaced_functions import facts, kept_faults, replaced_places

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # torch says which of its names are old

LEVELS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "L0": ("L0", 1, {}),
    "L1": ("L1", 1200, {}),
    "mix": ("mix", 1200, {}),
    "operators": ("mix", 1200, {"list": ["Aten", "Torch", "Tensor", "Functional", "Module"]}),
}
"""Level, how many functions it replaces at least, and further settings. Level L2 replaces what "operators" replaces."""


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("name", LEVELS)
def test_functions_are_as_without_the_tool(name: str, bench: Any) -> None:
    level, at_least, fields = LEVELS[name]
    model = nn.Linear(2, 2)
    debugger = bench.open(level, section=fields, risk_level="ALL")
    start = functools.partial(debugger.start, model)
    places = replaced_places("torch", start, debugger.stop)
    assert len(places) >= at_least
    assert kept_faults(places, start, debugger.stop) == []


PLACES = [
    (torch, "add", ("torch", "add")),
    (torch.Tensor, "add", (None, "Tensor.add")),
    (torch.Tensor, "norm", ("torch._tensor", "Tensor.norm")),
    (torch.nn.functional, "gelu", ("torch.nn.functional", "gelu")),  # of torch._C._nn, where the original stands
    (torch.nn.functional, "conv1d", ("torch", "nn.functional.conv1d")),
    (torch.nn.functional, "dropout", ("torch.nn.functional", "dropout")),
    (torch, "norm", ("torch", "norm")),  # of torch.functional, where the original stands
    (torch.Tensor, "__pow__", ("torch._tensor", "TensorBase.pow")),
    (torch.jit, "script", ("torch.jit._script", "script")),
    (torch.nn.Module, "__call__", ("torch.nn.modules.module", "Module.__call__")),
]


@pytest.mark.parametrize(("owner", "name", "names"), PLACES)
def test_the_name_is_the_one_by_which_pickle_finds_the_function(
    owner: Any, name: str, names: tuple[str, str], bench: Any
) -> None:
    bench.open("mix").start(nn.Linear(2, 2))
    assert facts((owner, name))[3:5] == names
