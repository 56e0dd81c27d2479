"""A call inside the backward of a custom function is named where it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, extra: bool) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.extra = extra
        return torch.matmul(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, weight = ctx.saved_tensors
        gradient = torch.matmul(gradients[0], weight.t())
        if ctx.extra:
            gradient = torch.mul(gradient, 1.5)  # extra
        return gradient, torch.matmul(x.t(), gradients[0]), None


class Block(torch.nn.Module):
    def __init__(self, extra: bool) -> None:
        super().__init__()
        self.weight, self.before, self.extra = torch.nn.Parameter(torch.randn(4, 4)), torch.nn.Linear(4, 4), extra

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(Product.apply(self.before(x), self.weight, self.extra))  # type: ignore[no-untyped-call]


def record(folder: Path, extra: bool) -> None:
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Block(extra))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(torch.randn(3, 4)).square().sum().backward()
    forget()


class FirstLayer(torch.nn.Module):
    """The layer before the function is the first one: no gradient of its input is computed."""

    def __init__(self, extra: bool) -> None:
        super().__init__()
        self.weight, self.extra = torch.nn.Parameter(torch.randn(4, 4)), extra
        self.before, self.after = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = Product.apply(self.before(x), self.weight, self.extra)  # type: ignore[no-untyped-call]
        return self.after(hidden)


def record_first_layer(folder: Path, extra: bool) -> None:
    forget()
    torch.manual_seed(0)
    model = FirstLayer(extra)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(torch.randn(3, 4)).square().sum().backward()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_it_is_named_before_the_first_layer_too(recordings: Recordings, turned: bool) -> None:
    pair = [recordings(record_first_layer, True), recordings(record_first_layer, False)]
    result: Any = msprobe.compare(*(reversed(pair) if turned else pair))
    found = result.summary.first_divergence
    assert (found.golden if turned else found.target) == "Torch.mul.0.forward" and found.source.endswith("# extra")


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_an_extra_call_in_a_written_backward_is_named_where_it_is_made(recordings: Recordings, turned: bool) -> None:
    pair = [recordings(record, True), recordings(record, False)]
    result: Any = msprobe.compare(*(reversed(pair) if turned else pair))
    found = result.summary.first_divergence
    assert found.module == "1.Block" and found.source.endswith("# extra")
    assert (found.golden if turned else found.target) == "Torch.mul.0.forward"
