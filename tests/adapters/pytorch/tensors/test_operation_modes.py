"""Modes that are left while the tool computes: those of the program, never those of a compiler."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functorch.compile import aot_function, nop
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import BaseTorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from msprobe.adapters.pytorch.tensors.operation_modes import in_modes, outside_modes

pytestmark = pytest.mark.torch


class Seen(TorchDispatchMode):
    """The operators that this mode is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def stacks() -> tuple[list[Any], list[Any]]:
    return _get_current_dispatch_mode_stack(), _get_current_function_mode_stack()


@pytest.mark.parametrize(
    "make", [Seen, FakeTensorMode, BaseTorchFunctionMode, lambda: torch.device("cpu")],
    ids=["dispatch", "fake", "function", "device"],
)  # fmt: skip
def test_modes_of_the_program_are_left_and_entered_again(make: Any) -> None:
    assert not in_modes()
    with make():
        before = stacks()
        assert in_modes()
        with outside_modes():
            assert not in_modes() and stacks() == ([], [])
        assert stacks() == before
    assert not in_modes()


@pytest.mark.parametrize("tracing_mode", ["real", "fake"])
def test_the_graph_of_make_fx_is_that_of_the_program(tracing_mode: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        before = stacks()
        assert in_modes()
        with outside_modes():
            assert stacks() == ([], [])
            x.detach()
        assert stacks() == before
        return x.sin()

    graph = make_fx(program, tracing_mode=tracing_mode)(torch.ones(2))
    assert [node.name for node in graph.graph.nodes if node.op == "call_function"] == ["sin"]


def test_the_modes_of_a_compiler_stay() -> None:
    mode, seen = Seen(), []

    def backward(gradient: torch.Tensor) -> torch.Tensor:
        before = stacks()[0]
        with mode, outside_modes():
            assert stacks()[0] == before and not in_modes()
            seen.append(len(before))
            return gradient + gradient

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        if y.requires_grad:
            y.register_hook(backward)
        return y.sum()

    x = torch.ones(2, requires_grad=True)
    aot_function(program, fw_compiler=nop, bw_compiler=nop)(x).backward()
    assert seen and min(seen) > 0
    assert mode.names == []
    assert torch.allclose(x.grad, 2 * x.detach().cos())


def test_functional_tensors_can_be_summed() -> None:
    mode = Seen()
    above = torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize))
    with above, FunctionalTensorMode() as functional:
        traced = torch.ones(2)
        assert type(traced) is FunctionalTensor and not in_modes()
        with mode, outside_modes():
            assert stacks() == ([functional], [])
            traced = traced + traced
        torch._sync(traced)
    assert mode.names == []
    assert torch._from_functional_tensor(traced.elem).tolist() == [2.0, 2.0]
