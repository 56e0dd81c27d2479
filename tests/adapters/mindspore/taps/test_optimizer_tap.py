"""Steps of optimizers: the parent of what they call, whichever package of MindSpore they are from."""

from __future__ import annotations

import json
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops
from mindspore.experimental import optim

X = Tensor(np.ones((2, 4), np.float32))


class Own(nn.Optimizer):
    """An optimizer of the user, whose step is Python."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(0.5, parameters)

    def construct(self, gradients: Any) -> Any:
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.set_data(parameter - mint.mul(gradient, 0.5))


KINDS = {
    "nn": lambda parameters: nn.Adam(parameters, 0.1),
    "experimental": lambda parameters: optim.SGD(parameters, lr=0.1),
    "own": Own,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_step_calls_has_the_optimizer_as_parent(bench: Any, kind: str) -> None:
    net = nn.SequentialCell(nn.Dense(4, 3), nn.ReLU())
    optimizer = KINDS[kind](net.trainable_params())
    train = mindspore.value_and_grad(lambda x: ops.exp(net(x)).sum(), None, net.trainable_params())

    def step() -> None:
        optimizer(train(X)[1])
        ops.exp(X)

    with bench.open("mix").collect(net):
        step()
    construct = bench.read().construct
    assert construct["optimizer"] is None
    inside = [name for name, parent in construct.items() if parent == "optimizer"]
    assert inside and "Functional.exp.1.forward" not in inside
    assert construct["Functional.exp.1.forward"] is None
    if kind == "own":
        assert inside[0] == "Mint.mul.0.forward"


def test_a_step_that_fails_is_over(bench: Any) -> None:
    net = nn.SequentialCell(nn.Dense(4, 3))
    optimizer = Own(net.trainable_params())
    with bench.open("mix").collect(net):
        with pytest.raises(ValueError, match="shorter"):
            optimizer(())
        ops.exp(X)
    assert bench.read().construct["Functional.exp.0.forward"] is None
    assert "__call__" not in vars(nn.Optimizer)


@pytest.mark.parametrize(("kind", "level"), [("nn", "mix"), ("experimental", "L1"), ("own", "L0")])
def test_settings_and_parameters_of_a_step_are_in_the_header(bench: Any, kind: str, level: str) -> None:
    net = nn.SequentialCell(nn.Dense(4, 3))
    optimizer = KINDS[kind](net.trainable_params())
    train = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    with bench.open(level).collect(net):
        optimizer(train(X)[1])
    (file,) = bench.root.rglob("dump.json")
    (item,) = json.loads(file.read_text("utf-8"))["optimizers"]
    (group,) = item["groups"]
    assert group["parameters"] == ["0.weight", "0.bias"]
    assert "lr" in group
