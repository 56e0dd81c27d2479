"""A hook that changes the gradient of one parameter: the parameter is named, wherever in the model it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch
LAYERS = {"first": "0.Embedding", "inner": "1.0.Linear", "last": "2.Linear"}


def record(folder: Path, level: str, layer: str | None = None) -> None:
    forget()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 4), nn.Sequential(nn.Linear(4, 8), nn.GELU()), nn.Linear(8, 3))
    if layer is not None:
        model.get_parameter(f"{layer.rpartition('.')[0]}.weight").register_hook(lambda gradient: gradient * 1.05)
    debugger = PrecisionDebugger(task="statistics", dump_path=str(folder), level=level)
    with debugger.collect(model):
        model(torch.arange(9)).square().mean().backward()
    forget()


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("where", LAYERS)
def test_the_parameter_is_named(recordings: Recordings, where: str, level: str) -> None:
    layer = LAYERS[where]
    golden, target = recordings(record, level), recordings(record, level, layer)
    found = msprobe.compare(target, golden).summary.first_divergence
    assert found is not None and (found.module, found.slot) == (layer, "parameters_grad.weight"), found
