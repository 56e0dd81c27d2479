"""Tasks free_benchmark and online_check in a dynamic graph of MindSpore, with its kernels for the CPU."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops

pytestmark = pytest.mark.mindspore

X = np.random.default_rng(0).standard_normal((8, 64))


def variance(x: Any) -> Any:
    return (x * x).mean(-1) - x.mean(-1) ** 2


def softmax(x: Any) -> Any:
    e = ops.exp(x)
    return e / e.sum(-1, keepdims=True)


def check(bench: Any, body: Callable[[], Any], model: Any = None, **section: Any) -> list[dict[str, str]]:
    """Run a function as one step and return the details of the findings."""
    with bench.open("L1", "free_benchmark", section).collect(model):
        body()
    path = bench.root / "free_benchmark_details.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Net(nn.Cell):
    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Dense(64, 32, dtype=dtype), nn.Dense(32, 4, dtype=dtype)
        self.norm = nn.LayerNorm((32,), dtype=dtype)

    def construct(self, x: Any) -> Any:
        return ops.softmax(self.fc2(self.norm(ops.relu(self.fc1(x)))), -1)


def train(net: Net, x: Any) -> list[Any]:
    loss, gradients = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
    return [each.astype(mindspore.float32).asnumpy().tobytes() for each in (loss, *gradients)]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("dtype", [mindspore.float32, mindspore.float16])
@pytest.mark.parametrize("policy", ["default", "reference"])
def test_a_training_is_bit_identical_and_right(policy: str, dtype: Any, bench: Any) -> None:
    net, x = Net(dtype), Tensor(X, dtype)
    plain, checked = train(net, x), []
    for mode in ("improve_precision", "bit_noise", "no_change"):
        found = check(bench, lambda: checked.append(train(net, x)), net, pert_mode=mode, policy=policy)
        assert policy == "reference" or found == []
    assert all(each == plain for each in checked)


def test_ill_conditioned_steps_have_their_line(bench: Any) -> None:
    def program() -> None:
        variance(Tensor(X * 0.1 + 10, mindspore.float16))
        softmax(Tensor(X, mindspore.float16))
        ops.softmax(Tensor(X * 40, mindspore.float16), -1)

    (line,) = check(bench, program)
    assert (line["api_name"], line["verdict"]) == ("Tensor.__sub__.0.forward", "ill-conditioned")
    assert "test_checked_trainings.py" in line["source"] and "x.mean(-1) ** 2" in line["source"]


@pytest.mark.parametrize(
    ("name", "entry"), [("mindspore.mint.exp", "Mint.exp"), ("mindspore.ops.exp", "Functional.exp")]
)
def test_full_names_of_functions(name: str, entry: str, bench: Any) -> None:
    x = Tensor(np.full((4,), 12.0), mindspore.float16)
    found = check(bench, lambda: (ops.exp(x), mint.exp(x)), list=[name])
    assert [(line["api_name"], line["verdict"]) for line in found] == [(f"{entry}.0.forward", "overflow")]


def test_the_backward_pass_by_name(bench: Any) -> None:
    def loss(x: Any) -> Any:
        return softmax(x.astype(mindspore.float16) * 10).astype(mindspore.float32).square().sum()

    found = check(
        bench,
        lambda: mindspore.grad(loss)(Tensor(X / 3, mindspore.float32)),
        list=["ops.exp", "exp"],
        fuzz_stage="backward",
    )
    assert {line["stage"] for line in found} <= {"backward"}


@pytest.mark.parametrize("handler", ["check", "fix"])
def test_a_wrong_function(handler: str, bench: Any) -> None:
    class Library:
        @staticmethod
        def twice(values: Any) -> Any:
            return values * (2.5 if values.dtype == mindspore.float16 else 2.0)

    debugger = bench.open("L1", "free_benchmark", {"handler_type": handler})
    debugger.register_custom_api(Library, "twice", "Library")
    with debugger.collect():
        result = Library.twice(Tensor(np.ones(4), mindspore.float16))
    assert result.asnumpy().tolist() == [2.5 if handler == "check" else 2.0] * 4
    path = bench.root / "free_benchmark_details.csv"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    assert ("Library.twice.0.forward" in text and "wrong kernel" in text) == (handler == "check")


def test_random_functions_draw_what_they_would(bench: Any) -> None:
    def drawn() -> list[float]:
        mindspore.set_seed(3)
        values = ops.dropout(Tensor(np.ones(64), mindspore.float32), 0.5)
        return [*values.asnumpy().tolist(), *np.random.rand(3).tolist()]

    plain, checked = drawn(), []
    assert check(bench, lambda: checked.extend(drawn())) == []
    assert checked == plain


def test_online_check_judges_calls_of_functions(bench: Any) -> None:
    class Library:
        @staticmethod
        def twice(values: Any) -> Any:
            return values * (2.5 if values.dtype == mindspore.float16 else 2.0)

    debugger = bench.open("L1", "online_check", {"share": 1.0})
    debugger.register_custom_api(Library, "twice", "Library")
    net = Net(mindspore.float32)
    plain = train(net, Tensor(X, mindspore.float32))
    with debugger.collect(net):
        assert train(net, Tensor(X, mindspore.float32)) == plain
        Library.twice(Tensor(np.ones(4), mindspore.float16))
    assert bench.read().names() == ["Library.twice.0.forward"]
    bench.close()
    found = json.loads((bench.root / "online_check_rank0" / "summary.json").read_text(encoding="utf-8"))
    assert {name for name, each in found.items() if each["wrong"]} == {"twice"}
    assert found["softmax"]["checked"] == 1
