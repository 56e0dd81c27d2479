"""Compiled functions inside a dynamic graph: recorded whole, and compiled from the originals of everything."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.adapters.mindspore.versions import jit_executor
from tests.adapters.bench import Bench

X = (np.arange(8, dtype=np.float32).reshape(2, 4) - 4) / 4  # every result is exact, wherever its memory lies


@mindspore.jit
def inner(x: Any) -> Any:
    return ops.square(x)


@mindspore.jit
def outer(x: Any) -> Any:
    return inner(x) * 2 + ops.relu(x)


class Compiled(nn.Cell):
    @mindspore.jit
    def construct(self, x: Any) -> Any:
        return ops.square(x)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = Compiled()

    def construct(self, x: Any) -> Any:
        return outer(self.first(x)).sum()


def test_functions_and_constructs_have_forward_and_backward(bench: Bench) -> None:
    net = Net()
    gradient = mindspore.value_and_grad(net)
    plain = gradient(Tensor(X))
    debugger = bench.open("mix")
    debugger.start(net)
    recorded = gradient(Tensor(X))
    debugger.stop()
    debugger.step()
    assert [part.asnumpy().tobytes() for part in recorded] == [part.asnumpy().tobytes() for part in plain]
    found = bench.read()
    assert found.names("Jit.") == [
        "Jit.Compiled.0.forward",
        "Jit.outer.0.forward",
        "Jit.outer.0.backward",
        "Jit.Compiled.0.backward",
    ]
    assert found.construct is not None
    assert found.construct["Jit.Compiled.0.forward"] == "Cell.first.Compiled.forward.0"
    exact = 4 * X**2 + (X != 0)  # the derivative of outer at what Compiled made
    assert found.data["Jit.outer.0.backward"]["output"][0]["Max"] == exact.max()


def test_what_is_compiled_while_collecting_never_meets_a_wrapper(bench: Bench) -> None:
    @mindspore.jit
    def fresh(x: Any) -> Any:
        return ops.square(ops.relu(x)) + mindspore.mint.abs(x)

    debugger = bench.open("L1")
    debugger.start()
    recorded = fresh(Tensor(X)).asnumpy()
    debugger.stop()
    debugger.step()
    assert bench.read().names() == ["Jit.fresh.0.forward"]
    assert fresh(Tensor(X)).asnumpy().tobytes() == recorded.tobytes()


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_step_that_is_compiled_with_its_gradients_never_meets_a_hook(bench: Bench, level: str) -> None:
    net = nn.SequentialCell(nn.Dense(4, 3))
    weights = net.trainable_params()

    def step(x: Any) -> Any:
        return mindspore.value_and_grad(lambda z: ops.square(net(z)).sum(), None, weights)(x)

    plain = mindspore.jit(step)(Tensor(X))
    debugger = bench.open(level)
    debugger.start(net)
    inside, outside = mindspore.jit(step)(Tensor(X)), step(Tensor(X))
    later = mindspore.jit(step)(Tensor(X))
    assert [len(weight.hooks()) for weight in weights] == [1, 1]
    debugger.stop()
    stopped = mindspore.jit(step)(Tensor(X))
    for found in (inside, outside, later, stopped):
        assert found[0].asnumpy().tobytes() == plain[0].asnumpy().tobytes()
        assert [part.asnumpy().tobytes() for part in found[1]] == [part.asnumpy().tobytes() for part in plain[1]]
    assert bench.read().names("Cell.0.Dense.parameters_grad")  # of the step outside


def test_the_compiler_is_as_before_after_any_number_of_debuggers(bench: Bench) -> None:
    compiler = jit_executor()
    before = compiler.compile
    for _ in range(3):
        with bench.open("mix").collect(nn.SequentialCell(nn.Dense(4, 3))):
            outer(Tensor(X))
    bench.close()
    assert compiler.compile == before
