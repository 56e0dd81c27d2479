"""``token_range`` on compiled models: their calls are counted as in eager mode, and the compiler sees nothing."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from msprobe.adapters.pytorch.compile.recompilation import supported
from msprobe.adapters.pytorch.taps.call_counter import CallCounter
from tests.adapters.pytorch.networks import Mlp

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not supported(), reason="this torch has no operators with an ordered effect"),
]

LEVELS = pytest.mark.parametrize("level", ["L0", "L1", "mix"])


class Tail(nn.Module):
    """One module inside."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    import torch._dynamo

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def wrapped(model: nn.Module) -> Callable[..., Any]:
    return torch.compile(model, backend="eager")


def in_place(model: nn.Module) -> Callable[..., Any]:
    model.compile(backend="eager")
    return model


def run(debugger: Any, given: Any, called: Any, calls: int = 3) -> None:
    """Calls of a model, a function of its own after each; torch warns of global hooks, and warnings are errors here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*", category=DeprecationWarning)
        debugger.start(given, token_range=(1, 1))
        for _ in range(calls):
            torch.tanh(called(torch.ones(1, 4)))
        debugger.stop()


@pytest.mark.matrix("wide", sample="each value")
@LEVELS
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("compiled", [wrapped, in_place], ids=["wrapped", "in_place"])
@pytest.mark.parametrize("inside", [False, True], ids=["given_as_called", "given_inside"])
def test_calls_of_compiled_models_are_counted(bench: Any, level: str, warm: bool, compiled: Any, inside: bool) -> None:
    model = Tail()
    called = compiled(model)
    if warm:
        called(torch.ones(1, 4))
    run(bench.open(level, risk_level="ALL"), model if inside else called, called)
    recorded = bench.read()
    assert recorded.names("Module.fc") == ([] if level == "L1" else ["Module.fc.Linear.forward.0"])
    assert recorded.names("tanh") == ([] if level == "L0" else ["Torch.tanh.0.forward"])


@LEVELS
def test_a_wrapper_that_runs_its_model_in_python_is_one_call(bench: Any, level: str) -> None:
    model = Tail()
    called = wrapped(model)
    with torch.compiler.set_stance("force_eager"):
        run(bench.open(level, risk_level="ALL"), model, called)
    assert len(bench.read().data) == {"L0": 1, "L1": 2, "mix": 3}[level]


def test_code_compiled_before_is_not_compiled_again_afterwards(bench: Any) -> None:
    model, compilations = Mlp(), []

    def counting(graph: Any, _: Any) -> Any:
        compilations.append(graph)
        return graph.forward

    called = torch.compile(model, backend=counting)
    called(torch.ones(1, 4))
    debugger = bench.open("L0")
    run(debugger, called, called)
    debugger.step()
    settled = len(compilations)
    called(torch.ones(1, 4))
    run(debugger, called, called)
    debugger.step()
    assert len(compilations) == settled == 2


def test_a_step_that_was_never_stopped_leaves_no_counting_behind(bench: Any) -> None:
    original, model = nn.Module.__call__, Tail()
    bench.open("L0").start(model, token_range=(0, 0))
    assert nn.Module.__call__ is not original
    bench.close()
    assert nn.Module.__call__ is original
    kept = sys.modules["torch._dynamo.utils"].unpatched_nn_module_call  # type: ignore[attr-defined]
    assert kept is original


def test_a_thread_calls_the_model_while_the_count_ends() -> None:
    class Ending(CallCounter):
        """Whoever looks a second time finds nothing."""

        _found: Any = None

        @property
        def _model(self) -> Any:
            found, self._found = self._found, None
            return found

        @_model.setter
        def _model(self, found: Any) -> None:
            self._found = found

    model, counted = Tail(), []
    stop = Ending().watch(model, lambda: counted.append(1))
    model(torch.ones(1, 4))
    stop()
    assert counted == [1]
