"""Weights in bytes beside weights in float32: quantisation by design is no difference, a wrong scale is one."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import msprobe  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402
from tests.recordings import Recordings  # noqa: E402

pytestmark = pytest.mark.torch
nn = torch.nn


class Bytes(nn.Module):
    """A layer with a weight in bytes, and a scale for each output."""

    def __init__(self, linear: nn.Linear, factor: float) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.scale = factor * weight.abs().amax(1, keepdim=True) / 127
        self.codes = (weight / weight.abs().amax(1, keepdim=True) * 127).round().to(torch.int8)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.codes.float() * self.scale, self.bias)


def train(folder: Path, way: str) -> None:
    forget()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    model[2].requires_grad_(False)
    if way != "float":
        model[2] = Bytes(model[2], 1.1 if way == "wrong scale" else 1.0)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for _ in range(2):
        debugger.start(model)
        optimizer.zero_grad()
        model(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_quantisation_by_design_is_no_difference(recordings: Recordings, turned: bool) -> None:
    pair = recordings(train, "bytes"), recordings(train, "float")
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == "same", result.summary.first_divergence
    assert "one run stores weights in bytes" in result.summary.reason


def test_a_wrong_scale_is_named_in_its_layer(recordings: Recordings) -> None:
    found = msprobe.compare(recordings(train, "wrong scale"), recordings(train, "float")).summary.first_divergence
    assert found is not None and found.module == "2.Bytes", found


class Float8(nn.Module):
    """A layer that multiplies in eight bits, and keeps its weight in 32."""

    def __init__(self, linear: nn.Linear, factor: float) -> None:
        super().__init__()
        self.weight, self.bias, self.factor = linear.weight, linear.bias, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = 448 / self.weight.detach().abs().max()
        weight = self.weight + ((self.weight * scale).to(torch.float8_e4m3fn).float() / scale - self.weight).detach()
        return nn.functional.linear(x, self.factor * weight, self.bias)


def train_in_float8(folder: Path, layers: int, factor: float = 1.0) -> None:
    """The last ``layers`` of three layers in eight bits, the first of them with a wrong factor."""
    forget()
    torch.manual_seed(0)
    linears = [nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)]
    for number in range(3 - layers, 3):
        linears[number] = Float8(linears[number], factor if number == 3 - layers else 1.0)
    model = nn.Sequential(linears[0], nn.GELU(), linears[1], nn.Tanh(), linears[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for _ in range(2):
        debugger.start(model)
        optimizer.zero_grad()
        model(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_products_in_eight_bits_are_no_difference(recordings: Recordings, turned: bool) -> None:
    pair = recordings(train_in_float8, 3), recordings(train_in_float8, 0)
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == "same", result.summary.first_divergence


def test_one_small_layer_in_eight_bits_is_a_difference(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(train_in_float8, 1), recordings(train_in_float8, 0)).verdict == "diverged"


def test_a_wrong_factor_in_eight_bits_is_a_difference(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(train_in_float8, 3, 1.5), recordings(train_in_float8, 0)).verdict == "diverged"
