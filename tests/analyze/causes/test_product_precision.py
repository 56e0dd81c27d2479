"""Products of modules with names of the user's own are recognised at L0, where no function inside is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch.nn.functional import linear

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Return float32 numbers rounded to the 10 bits of TF32; the gradient is that of the numbers themselves."""
    bits = (x.detach().view(torch.int32) + 0x1000) & ~0x1FFF
    return x + (bits.view(torch.float32) - x).detach()


class Mixer(torch.nn.Module):
    """A module of the user that multiplies, and neither its name nor anything inside says so."""

    def __init__(self, size: int, out: int, tf32: bool) -> None:
        super().__init__()
        self.matrix, self.tf32 = torch.nn.Parameter(torch.randn(out, size) / size**0.5), tf32

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return linear(rounded(x), rounded(self.matrix)) if self.tf32 else linear(x, self.matrix)


class Shift(torch.nn.Module):
    """A module of the user that multiplies no matrices."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.bias, self.factor = torch.nn.Parameter(torch.ones(128)), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.bias) * self.factor


def record(folder: Path, tf32: bool, fault: str = "") -> None:
    forget()
    torch.manual_seed(0)
    shift = Shift(1.2 if fault == "shift" else 1.0)
    model = torch.nn.Sequential(Mixer(64, 128, tf32), shift, Mixer(128, 64, tf32), Mixer(64, 8, tf32))
    if fault == "weight":
        with torch.no_grad():
            model[2].matrix.mul_(1.05)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "L0", "task": "statistics"})
    with debugger.collect(model=model):
        model(torch.randn(32, 64)).square().mean().backward()
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_rounded_products_are_named_and_allowed(recordings: Recordings, turned: bool) -> None:
    pair = recordings(record, True), recordings(record, False)
    target, golden = reversed(pair) if turned else pair
    found = msprobe.compare(target, golden).summary.first_divergence
    assert found is not None and "the products look rounded to TF32 or HF32" in found.reason
    allowed = msprobe.compare(target, golden, precision="tf32")
    assert allowed.verdict == "same", allowed.summary.first_divergence


@pytest.mark.parametrize(("fault", "module"), [("weight", "2.Mixer"), ("shift", "1.Shift")])
def test_a_fault_beside_them_is_named(recordings: Recordings, fault: str, module: str) -> None:
    target, golden = recordings(record, True, fault), recordings(record, False)
    found = msprobe.compare(target, golden, precision="tf32").summary.first_divergence
    assert found is not None and found.module == module and "TF32" not in found.reason
