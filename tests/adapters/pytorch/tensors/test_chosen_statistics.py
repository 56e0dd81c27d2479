"""summary_mode as a list: these statistics alone are written, whatever else is done with a tensor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from msprobe.core.store.reader import find_dumps, load_dump
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch
STATISTICS = {"Max", "Min", "Mean", "Norm"}


def tensors(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict) and "shape" in node:
        yield node
    elif isinstance(node, (dict, list)):
        for part in node.values() if isinstance(node, dict) else node:
            yield from tensors(part)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("chosen", [["mean"], ["max", "l2norm"], ["max", "min", "mean", "l2norm"]], ids="-".join)
@pytest.mark.parametrize("async_dump", [False, True], ids=["now", "async"])
def test_what_is_listed_is_written_with_the_values_it_always_has(
    bench: Any, chosen: list[str], async_dump: bool
) -> None:
    model, names = Mlp(), {"max": "Max", "min": "Min", "mean": "Mean", "l2norm": "Norm"}
    found = []
    for mode in ("statistics", chosen):
        section = {"summary_mode": mode, "tensor_list": ["fc1"]}
        debugger = bench.open("mix", section=section, async_dump=async_dump)
        torch.manual_seed(0)
        with debugger.collect(model):
            model(torch.ones(1, 4)).sum().backward()
            debugger.save(torch.ones(2), "point")
        bench.close()
        found.append(load_dump(find_dumps(bench.root)[0]).data)
    whole, part = found
    assert list(whole) == list(part)
    kept = {names[word] for word in chosen}
    dropped = {*STATISTICS - kept, "Projection"}
    for one, other in zip(tensors(list(whole.values())), tensors(list(part.values())), strict=True):
        assert other == {key: value for key, value in one.items() if key not in dropped}
    (points,) = bench.root.rglob("debug.json")
    node = json.loads(points.read_text())["data"]["point.0.debug"]
    assert node.keys() & STATISTICS == kept


def test_a_judge_sees_what_is_not_written(bench: Any) -> None:
    with bench.open("L1", "overflow_check", {"summary_mode": ["mean"]}).collect():
        torch.log(torch.zeros(2))
    node = bench.read().data["Torch.log.0.forward"]["output"][0]
    assert node.keys() & STATISTICS == {"Mean"}
