"""A training loop that calls step() and never stop(): each step has all the first one has."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


def names(bench: Any, step: int) -> list[str]:
    (document,) = bench.root.glob(f"step{step}/*/dump.json")
    return list(json.loads(document.read_bytes())["data"])


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("level", ["L0", "mix"])
def test_every_step_is_whole(bench: Any, level: str, compiled: bool) -> None:
    model = Mlp()
    run = torch.compile(model, backend="aot_eager") if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = bench.open(level)
    debugger.start(model=model)
    for step in range(3):
        assert len(list(bench.root.glob("step*"))) == max(step, 1)  # that of a step comes with its first call
        run(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        debugger.step()
    debugger.stop()
    assert sorted(folder.name for folder in bench.root.iterdir()) == ["step0", "step1", "step2"]
    first = names(bench, 0)
    for kind in ("forward", "backward", "parameters_grad"):
        assert any(f".{kind}." in name for name in first)
    assert names(bench, 1) == names(bench, 2)
    assert sorted(names(bench, 1)) == sorted(first)
    assert list(bench.root.rglob("dump_error_info.log")) == []
