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


class Step:
    """A step with its gradients, in a dynamic graph or compiled anew."""

    def __init__(self) -> None:
        self.net = nn.SequentialCell(nn.Dense(4, 3))
        self.weights = self.net.trainable_params()

    def dynamic(self) -> list[bytes]:
        return self._bits(self._function()(Tensor(X)))

    def compiled(self) -> list[bytes]:
        return self._bits(mindspore.jit(self._function())(Tensor(X)))

    def hooks(self) -> list[int]:
        return [len(weight.hooks()) for weight in self.weights]

    def _function(self) -> Any:
        net, weights = self.net, self.weights

        def step(x: Any) -> Any:
            return mindspore.value_and_grad(lambda z: ops.square(net(z)).sum(), None, weights)(x)

        return step

    @staticmethod
    def _bits(result: Any) -> list[bytes]:
        value, gradients = result
        return [part.asnumpy().tobytes() for part in (value, *gradients)]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_step_that_is_compiled_with_its_gradients_never_meets_a_hook(bench: Bench, level: str) -> None:
    step = Step()
    plain = step.compiled()
    debugger = bench.open(level)
    debugger.start(step.net)
    found = [step.compiled(), step.dynamic(), step.compiled()]
    assert step.hooks() == [1, 1]
    debugger.stop()
    assert [*found, step.compiled()] == [plain] * 4
    assert bench.read().names("Cell.0.Dense.parameters_grad")  # of the dynamic step


TASKS: list[tuple[str, dict[str, Any]]] = [
    ("statistics", {}),
    ("statistics", {"summary_mode": "md5"}),
    ("statistics", {"summary_mode": "xor"}),
    ("tensor", {}),
    ("overflow_check", {}),
    ("nan_check", {}),
    ("structure", {}),
]


COMBINATIONS = [
    pytest.param(level, task, section, id="-".join((level, task, *section.values())))
    for level in ("L0", "L1", "mix")
    for task, section in TASKS
    if (task, level) != ("structure", "L1") and (task != "nan_check" or level == "L1")
]


@pytest.mark.matrix("wide", sample=6)
@pytest.mark.slow
@pytest.mark.parametrize(("level", "task", "section"), COMBINATIONS)
def test_a_step_is_compiled_as_before_after_an_operator_has_raised(
    bench: Bench, level: str, task: str, section: dict[str, Any]
) -> None:
    step = Step()
    plain = step.compiled()
    debugger = bench.open(level, task, section)
    debugger.start(step.net)
    with pytest.raises(TypeError):  # after it, MindSpore removes none of the hooks that are there
        ops.mul(step.net(Tensor(X)), [1])
    found = [step.compiled(), step.dynamic()]
    debugger.stop()
    assert [*found, step.compiled()] == [plain] * 3
    debugger.step()
    assert max(step.hooks()) <= 1


def test_the_compiler_is_as_before_after_any_number_of_debuggers(bench: Bench) -> None:
    compiler = jit_executor()
    before = compiler.compile
    for _ in range(3):
        with bench.open("mix").collect(nn.SequentialCell(nn.Dense(4, 3))):
            outer(Tensor(X))
    bench.close()
    assert compiler.compile == before
