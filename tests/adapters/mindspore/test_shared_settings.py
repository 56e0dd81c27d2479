"""Settings that a config.json written for PyTorch holds, in a dynamic graph of MindSpore."""

from __future__ import annotations

import contextlib
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

X = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))


def compute() -> bytes:
    loss, gradient = mindspore.value_and_grad(lambda x: ops.square(ops.reshape(x, (3, 2))).sum())(X)
    return bytes(loss.asnumpy().tobytes() + gradient.asnumpy().tobytes())


def step(debugger: Any) -> bytes:
    with debugger.collect():
        return compute()


@pytest.mark.parametrize(("risk_level", "warnings"), [("CORE", 1), ("FOCUS", 0), ("ALL", 0)])
def test_every_risk_level_records_all(
    bench: Any, risk_level: str, warnings: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the second debugger says nothing again
        step(bench.open("L1", risk_level=risk_level))
    names = bench.read().names()
    assert {"Functional.reshape.0.forward", "Functional.square.0.forward"} <= set(names)
    assert capsys.readouterr().out.count("risk_level: has no effect") == warnings


@pytest.mark.parametrize(("mode", "warnings"), [("all", 0), ("aicore", 1), ("atomic", 1)])
def test_check_mode_of_a_dynamic_graph_is_told(
    bench: Any, mode: str, warnings: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        bench.open("L1", "overflow_check", {"check_mode": mode})
    assert capsys.readouterr().out.count("check_mode: has no effect") == warnings


def words(array: Any) -> str:
    data = array.tobytes()
    padded = np.frombuffer(data + bytes(-len(data) % 8), "<u8")
    return f"0x{int(np.bitwise_xor.reduce(padded)):016x}"


def test_xor_is_that_of_the_words(bench: Any) -> None:
    plain = compute()
    assert step(bench.open("L1", section={"summary_mode": "xor"})) == plain
    body = bench.read().data["Functional.square.0.forward"]
    given = X.asnumpy().reshape(3, 2)
    assert body["input_args"][0]["md5"] == words(given)
    assert body["output"][0]["md5"] == words(given * given)
    assert "Max" not in body["output"][0]
    assert bench.read().data["Functional.square.0.backward"]["output"][0]["md5"] == words(given * 2)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_slice_is_measured_and_saved(bench: Any, task: str) -> None:
    plain = compute()
    assert step(bench.open("L1", task, {"slice": [{"dim": 0, "begin": 1, "end": 3}]})) == plain
    found = bench.read()
    for side, factor in (("forward", 1), ("backward", 2)):
        body = found.data[f"Functional.square.0.{side}"]
        node = (body.get("input_args") or body["output"])[0]
        part = X.asnumpy().reshape(3, 2)[1:3] * factor
        assert (node["shape"], node["Max"], node["Min"]) == ([2, 2], part.max(), part.min())
        if task == "tensor":
            assert bench.array(node["data_name"]).tobytes() == part.tobytes()
    assert not [name for name in found.names() if "getitem" in name or "slice" in name]


def test_a_slice_of_parameters_leaves_the_training_as_it_is(bench: Any) -> None:
    def train(debugger: Any) -> list[bytes]:
        net = nn.Dense(3, 2, weight_init="ones", bias_init="zeros")
        optimizer = nn.SGD(net.trainable_params(), learning_rate=0.1)
        step = mindspore.value_and_grad(lambda x: ops.square(net(x)).sum(), None, net.trainable_params())
        for _ in range(2):
            with contextlib.nullcontext() if debugger is None else debugger.collect(nn.CellList([net])):
                optimizer(step(X)[1])
        return [parameter.asnumpy().tobytes() for parameter in net.trainable_params()]

    plain = train(None)
    assert train(bench.open("mix", section={"slice": [{"dim": 1, "end": 2}]})) == plain
    assert bench.read(1).data["Cell.0.Dense.forward.0"]["parameters"]["weight"]["shape"] == [2, 2]
