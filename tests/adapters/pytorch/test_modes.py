"""Modes of the program (``TorchDispatchMode``, ``TorchFunctionMode``) see the operations of the program only."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe.adapters.pytorch.tensors import tensor_ops

pytestmark = pytest.mark.torch

LEVELS: dict[str, tuple[str, dict[str, Any]]] = {
    "L0": ("L0", {}),
    "L1": ("L1", {}),
    "mix": ("mix", {}),
    "operators": ("mix", {"list": ["Aten", "Torch", "Functional", "Tensor", "Module"]}),
}
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "statistics": ("statistics", {}),
    "md5": ("statistics", {"summary_mode": "md5"}),
    "xor": ("statistics", {"summary_mode": "xor"}),
    "tensor": ("tensor", {}),
}


class Operators(TorchDispatchMode):
    """Lists the operators, and draws a random number at each."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        torch.rand(1)
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    """Lists the functions, and draws a random number at each."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        torch.rand(1)
        return func(*args, **(kwargs or {}))


def train(begin: Callable[[nn.Module], object], end: Callable[[], object], inside: bool) -> tuple[Any, ...]:
    """Run one step in both modes and return all that they have seen, with the loss and the next random number.

    ``begin`` and ``end`` are called in the modes, or around them.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    operators, functions = Operators(), Functions()
    if not inside:
        begin(model)
    with operators, functions:
        if inside:
            begin(model)
        inputs = torch.randn(3, 4).t().contiguous().t()
        loss = nn.functional.cross_entropy(model(inputs), torch.tensor([0, 1, 0]))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if inside:
            end()
    if not inside:
        end()
    gradients = [parameter.grad.tolist() for parameter in model.parameters() if parameter.grad is not None]
    return operators.seen, functions.seen, loss.item(), gradients, torch.rand(1).item()


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("inside", [False, True], ids=["modes-inside", "start-inside"])
@pytest.mark.parametrize("native", [True, False], ids=["kernel", "fallback"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("level", LEVELS)
def test_modes_see_the_program_only(
    bench: Any, monkeypatch: pytest.MonkeyPatch, level: str, task: str, native: bool, inside: bool
) -> None:
    alone = train(lambda model: None, lambda: None, inside)
    if not native:
        monkeypatch.setattr(tensor_ops, "measuring", None)
        monkeypatch.setattr(tensor_ops, "fused", None)
    debugger = bench.open(LEVELS[level][0], TASKS[task][0], {**LEVELS[level][1], **TASKS[task][1]})
    watched = train(debugger.start, debugger.stop, inside)
    assert watched == alone
    names = bench.read().names()
    assert any(name.startswith("Aten.") for name in names) == (level == "operators")
    assert any(name.endswith(".backward.0") or ".backward" in name for name in names)


def test_a_device_context_does_not_move_what_the_tool_makes(bench: Any) -> None:
    values = torch.ones(3, 2).t()
    debugger = bench.open("L1", "statistics", {"summary_mode": "md5"})
    with torch.device("meta"):
        debugger.start()
        torch.matmul(values, values.t())
        debugger.stop()
    argument, _ = bench.read().data["Torch.matmul.0.forward"]["input_args"]
    assert (argument["Max"], argument["md5"]) == (1.0, f"{zlib.crc32(values.contiguous().numpy().tobytes()):08x}")
