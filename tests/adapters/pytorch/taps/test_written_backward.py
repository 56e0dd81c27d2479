"""What a backward function written by the user calls: no recomputation, and a child of the module it belongs to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.torch


class Square(torch.autograd.Function):
    """x * x by hand."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.mul(2 * x, gradient)


class SquareModule(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Square.apply(x)  # type: ignore[no-any-return]


def test_calls_in_a_written_backward(bench: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), SquareModule(), nn.Linear(4, 2))
    debugger = bench.open("mix", risk_level="ALL")
    debugger.start(model=model)
    model(torch.randn(3, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    inside = [name for name, parent in recorded.construct.items() if parent == "Module.1.SquareModule.backward.0"]
    assert {"Tensor.__rmul__.0.forward", "Torch.mul.0.forward"} <= set(inside)
    assert not any("is_recompute" in body for body in recorded.data.values())


def test_a_gradient_hook_is_no_recomputation(bench: Any) -> None:
    x = torch.randn(3, requires_grad=True)
    debugger = bench.open("L1")
    debugger.start()
    y = torch.exp(x)
    y.register_hook(lambda gradient: torch.mul(gradient, 2.0))
    y.sum().backward()
    debugger.stop()
    debugger.step()
    assert "is_recompute" not in bench.read().data["Torch.mul.0.forward"]
