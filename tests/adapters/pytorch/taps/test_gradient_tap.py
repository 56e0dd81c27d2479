"""Gradients of tensors inside containers: what is recorded of a value is looked up in the backward pass too."""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.torch

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Box:
    left: torch.Tensor
    right: torch.Tensor


CONTAINERS: dict[str, Callable[[Any, Any], Any]] = {
    "list": lambda left, right: [left, right],
    "tuple": lambda left, right: (left, right),
    "dict": lambda left, right: {"left": left, "right": right},
    "ordered dict": lambda left, right: collections.OrderedDict(left=left, right=right),
    "named tuple": Pair,
    "dataclass": Box,
}


def parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return [value.left, value.right] if isinstance(value, Box) else list(value)


def collect(bench: Any, function: Callable[[Any], Any], argument: Any) -> dict[str, Any]:
    """The backward entry of ``function``, whose parts are each weighed 1 and 2 in the loss."""
    library = types.SimpleNamespace(compute=function, __name__="lib")
    debugger = bench.open()
    debugger.register_custom_api(library, "compute")
    debugger.start()
    result = library.compute(argument)
    first, *rest = [result] if isinstance(result, torch.Tensor) else parts(result)
    loss = first.sum()
    for part in rest:
        loss = loss + 2 * part.sum()
    loss.backward()
    debugger.stop()
    debugger.step()
    found: dict[str, Any] = bench.read().data["lib.compute.0.backward"]
    return found


@pytest.mark.parametrize("kind", CONTAINERS)
def test_gradients_of_arguments_inside_containers(bench: Any, kind: str) -> None:
    left, right = torch.full((2,), 3.0, requires_grad=True), torch.full((2,), 5.0, requires_grad=True)
    (gradients,) = collect(bench, lambda value: parts(value)[0] * parts(value)[1], CONTAINERS[kind](left, right))[
        "output"
    ]
    assert [part["Max"] for part in parts(gradients)] == [5.0, 3.0]


@pytest.mark.parametrize("kind", CONTAINERS)
def test_gradients_of_results_inside_containers(bench: Any, kind: str) -> None:
    x = torch.ones(2, requires_grad=True)
    body = collect(bench, lambda value: CONTAINERS[kind](value * 3, value * 4), x)
    assert [part["Max"] for part in body["input"]] == [1.0, 2.0]
    assert body["output"][0]["Max"] == 3.0 + 2 * 4.0
