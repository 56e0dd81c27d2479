"""Programs that forbid to compile again: their compiled code runs as without the tool, the rest is recorded."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.adapters.pytorch.networks import Mlp

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # of the compiler, about itself
    pytest.mark.usefixtures("fresh_compiler"),
]

LEVELS = pytest.mark.parametrize("level", ["L0", "L1", "mix"])
Forbidding = Callable[[], contextlib.AbstractContextManager[None]]


def by_setting() -> contextlib.AbstractContextManager[None]:
    return torch._dynamo.config.patch(error_on_recompile=True)  # type: ignore[no-any-return]


def by_stance() -> contextlib.AbstractContextManager[None]:
    return torch.compiler.set_stance("fail_on_recompile")  # type: ignore[no-any-return]


def by_skipped_guards() -> contextlib.AbstractContextManager[None]:
    return torch.compiler.set_stance(skip_guard_eval_unsafe=True)  # type: ignore[no-any-return]


WAYS = pytest.mark.parametrize("forbidding", [by_setting, by_stance, by_skipped_guards])


class Step:
    """A training step that is compiled: model, loss and the update of the parameters."""

    def __init__(self, backend: str = "aot_eager") -> None:
        self.model = Mlp()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self._loss = torch.compile(self._forward, backend=backend)
        self._update = torch.compile(self.optimizer.step, backend=backend)

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.model(x.mul(2))).square().sum()

    def __call__(self) -> list[Any]:
        x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        self.optimizer.zero_grad()
        loss = self._loss(x)
        loss.backward()
        self._update()
        assert x.grad is not None
        return [loss.item(), *x.grad.flatten().tolist()]


def warmed_up() -> Step:
    torch.manual_seed(1)
    step = Step()
    for _ in range(3):
        step()
    return step


@pytest.mark.matrix("wide", sample="each value")
@LEVELS
@WAYS
def test_the_program_goes_on_with_the_same_results_and_is_told(
    bench: Any, level: str, forbidding: Forbidding, caplog: pytest.LogCaptureFixture
) -> None:
    alone, step = warmed_up(), warmed_up()
    expected = [alone() for _ in range(3)]
    debugger = bench.open(level)
    with forbidding(), caplog.at_level(logging.WARNING, logger="msprobe"):
        debugger.start(model=step.model)
        found = [step(), step()]
        debugger.stop()
        found.append(step())
    assert found == expected
    messages = [record.message for record in caplog.records if "compiled" in record.message]
    assert len(messages) == 1
    assert "this program forbids to compile again" in messages[0]


@LEVELS
def test_forbidden_after_the_start(bench: Any, level: str) -> None:
    step = warmed_up()
    debugger = bench.open(level)
    debugger.start(model=step.model)
    with by_setting():
        step()
    debugger.stop()


def test_what_is_called_beside_compiled_code_is_recorded(bench: Any) -> None:
    step = warmed_up()
    debugger = bench.open("mix")
    with by_setting():
        debugger.start(model=step.model)
        step()
        step.model(torch.ones(2, 4))
        torch.relu(torch.ones(3))
        debugger.stop()
    data = bench.read()
    assert data.data["Module.fc1.Linear.forward.0"]["input_args"][0]["shape"] == [2, 4]
    assert data.data["Torch.relu.0.forward"]["input_args"][0]["shape"] == [3]


def test_a_part_that_is_excluded_from_compilation_is_recorded(bench: Any) -> None:
    @torch._dynamo.disable
    def aside(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)

    def whole(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(aside(torch.tanh(x)))

    compiled = torch.compile(whole, backend="aot_eager")
    compiled(torch.ones(3))
    debugger = bench.open("L1", risk_level="ALL")
    with by_setting():
        debugger.start()
        compiled(torch.ones(3))
        debugger.stop()
    assert list(bench.read().data) == ["Torch.relu.0.forward"]


def test_an_error_in_compiled_code_leaves_everything_in_place(bench: Any) -> None:
    originals = (torch.relu, nn.Module.__call__)
    compiled = torch.compile(lambda x, y: torch.relu(x) @ y, backend="eager")
    compiled(torch.ones(2, 2), torch.ones(2, 2))
    debugger = bench.open("L1")
    with by_setting():
        debugger.start()
        with pytest.raises(Exception, match="Recompiling"):
            compiled(torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2))
        torch.relu(torch.ones(3))
        debugger.stop()
    assert list(bench.read().data) == ["Torch.relu.0.forward"]
    assert (torch.relu, nn.Module.__call__) == originals


def test_stopped_by_another_thread_while_compiled_code_runs(bench: Any) -> None:
    """Inside a compiled call one thread waits; nothing is left over, and the next collection steps aside again."""
    inside, go_on = threading.Event(), threading.Event()

    def waiting(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        inside.set()  # the graph breaks here
        go_on.wait(30)
        return y + 1

    original = torch.relu
    compiled = torch.compile(waiting, backend="aot_eager")
    go_on.set()
    compiled(torch.ones(3))
    debugger = bench.open("L1")
    with by_stance():  # the setting belongs to a thread
        inside.clear()
        go_on.clear()
        debugger.start()
        thread = threading.Thread(target=compiled, args=(torch.ones(3),))
        thread.start()
        assert inside.wait(30)
        assert torch.relu is original
        debugger.stop()
        go_on.set()
        thread.join()
        assert torch.relu is original
        debugger.start()
        assert torch.relu is not original
        compiled(torch.ones(3))
        debugger.stop()
    assert torch.relu is original
