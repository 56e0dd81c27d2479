"""What a dump says beside the values of its calls: modes of calls, shared memory, parameters after the step."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops
from mindspore.experimental import optim

from msprobe.adapters.mindspore.versions import address_of_tensors, api
from tests.adapters.bench import Bench


class Tied(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.layer = nn.Dense(4, 4)
        self.head = nn.Dense(4, 8, has_bias=False)
        self.head.weight = self.embedding.embedding_table

    def construct(self, tokens: Any) -> Any:
        return self.head(self.layer(self.embedding(tokens)))


TOKENS = Tensor(np.arange(8), mindspore.int32)


def test_calls_say_their_modes(bench: Bench) -> None:
    model = Tied().set_train()
    with bench.open("mix").collect(model):
        mindspore.value_and_grad(lambda x: model(x).sum(), None, model.trainable_params())(TOKENS)
        model.set_train(False)
        with api()._no_grad():
            model(TOKENS)
            mint.abs(TOKENS)
        mint.abs(TOKENS)
    data = bench.read().data
    calls = [data[f"Cell.layer.Dense.forward.{number}"] for number in range(2)]
    assert [(call["training"], call["autograd"]) for call in calls] == [(True, "grad"), (False, "no_grad")]
    assert [data[f"Mint.abs.{number}.forward"].get("autograd") for number in range(2)] == ["no_grad", None]


def test_parameters_that_are_shared(bench: Bench) -> None:
    model = nn.SequentialCell(nn.Dense(2, 2), nn.Dense(2, 2), nn.Dense(2, 2))
    model[1].weight.set_data(model[0].weight)
    same = nn.Dense(3, 3)
    debugger = bench.open("L0")
    debugger.start(model=[model, Tied(), nn.CellList([same, same])])
    debugger.step()
    debugger.stop()
    of_one_address = [["0.0.weight", "0.1.weight"]] if address_of_tensors() is not None else []
    assert bench.read().dump["shared_storage"] == [
        *of_one_address,
        ["1.embedding.embedding_table", "1.head.weight"],
        ["2.0.weight", "2.1.weight"],
        ["2.0.bias", "2.1.bias"],
    ]


def test_a_recomputed_cell_shares_nothing_with_itself(bench: Bench) -> None:
    model = nn.SequentialCell(nn.Dense(2, 2))
    model[0].recompute()
    debugger = bench.open("L0")
    debugger.start(model=model)
    debugger.stop()
    assert "shared_storage" not in bench.read().dump


@pytest.mark.parametrize("given", [True, False])
def test_an_optimizer_names_parameters_by_their_path_in_the_model(bench: Bench, given: bool) -> None:
    model = Tied()
    model.layer.bias.name = "renamed"
    parameters = [*model.trainable_params(), mindspore.Parameter(mint.ones((2,)), name="alone")]
    optimizer = optim.SGD(parameters, lr=0.5)
    gradients = [ops.zeros_like(parameter) for parameter in parameters]
    with bench.open("L1").collect(model if given else None):
        optimizer(gradients)
    (item,) = bench.read().dump["optimizers"]
    (group,) = item["groups"]
    bias = "layer.bias" if given else "renamed"
    assert group["parameters"] == ["embedding.embedding_table", "layer.weight", bias, "alone"]


def test_parameters_after_the_step(bench: Bench) -> None:
    model = Tied()
    debugger = bench.open("L0", step_records=["parameters"])
    debugger.start(model=model)
    model(TOKENS)
    model.layer.bias.set_data(mint.ones((4,)))
    debugger.stop()
    debugger.step()
    found = {item["name"]: item["value"]["Norm"] for item in bench.read().dump["parameters_after_step"]}
    assert list(found) == ["embedding.embedding_table", "layer.weight", "layer.bias"]
    assert found["layer.bias"] == 2
