"""Functions whose result follows the difference of an input in units of the data, and not relative to its size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch
_ANGLES = torch.arange(2, 1010, 7).float().view(2, -1)
_SCORES = torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(0)).half() * 4
_MASKED = _SCORES.masked_fill(torch.ones(8, 8).triu(1).bool(), -65504.0)


def _dump(folder: Path, x: Tensor, function: Callable[[Tensor], Tensor]) -> Path:
    forget()
    debugger = PrecisionDebugger({"task": "statistics", "level": "L1", "dump_path": str(folder)})
    with debugger.collect(None):
        function(x * 1.0)
    forget()
    return folder


def _rounded(x: Tensor, units: int = 1) -> Tensor:
    """Every third element is some neighbours further, every other third as many back."""
    limits = torch.tensor([float("inf"), -float("inf")], dtype=x.dtype)
    signs = torch.arange(x.numel()).view(x.shape) % 3
    for _ in range(units):
        nudged = torch.where(signs == 0, torch.nextafter(x, limits[0]), x)
        nudged = torch.where(signs == 1, torch.nextafter(x, limits[1]), nudged)
        x = torch.where(x < -1e4, x, nudged)
    return x


@pytest.mark.parametrize("function", [torch.sin, torch.cos], ids=["sin", "cos"])
def test_a_phase_that_is_rounded_otherwise(tmp_path: Path, function: Callable[[Tensor], Tensor]) -> None:
    golden = _dump(tmp_path / "golden", _ANGLES, function)
    assert msprobe.compare(_dump(tmp_path / "rounded", _rounded(_ANGLES), function), golden).verdict == "same"
    wrong = _dump(tmp_path / "wrong", _ANGLES + 1e-2, function)
    assert msprobe.compare(wrong, golden).verdict == "diverged"


def test_a_mask_that_hides_the_size_of_the_scores(tmp_path: Path) -> None:
    golden = _dump(tmp_path / "golden", _MASKED, lambda x: torch.softmax(x, -1))
    rounded = _dump(tmp_path / "rounded", _rounded(_MASKED, 4), lambda x: torch.softmax(x, -1))
    assert msprobe.compare(rounded, golden).verdict == "same"
    wrong = _dump(
        tmp_path / "wrong", torch.where(_MASKED < -1e4, _MASKED, _MASKED * 1.1), lambda x: torch.softmax(x, -1)
    )
    assert msprobe.compare(wrong, golden).verdict == "diverged"


def _update(gradient: Tensor) -> Tensor:
    average = gradient * 0.1
    return torch.linspace(-0.2, 0.2, 64).addcdiv_(average, gradient.abs() + 1e-8, value=-0.01)


def test_the_quotient_of_a_gradient_of_rounding_is_rounding(tmp_path: Path) -> None:
    gradient = torch.cat([torch.linspace(-1.0, 1.0, 32), torch.linspace(-3e-9, 3e-9, 32)])
    other = torch.cat([torch.linspace(-1.0, 1.0, 32), torch.linspace(4e-9, -2e-9, 32)])
    golden = _dump(tmp_path / "golden", gradient, _update)
    assert msprobe.compare(_dump(tmp_path / "rounded", other, _update), golden).verdict == "same"
    wrong = _dump(tmp_path / "wrong", gradient.roll(16), _update)
    assert msprobe.compare(wrong, golden).verdict == "diverged"


@pytest.mark.parametrize("function", [torch.log, torch.log2, torch.log10], ids=["log", "log2", "log10"])
def test_a_logarithm_of_what_is_nearly_one(tmp_path: Path, function: Callable[[Tensor], Tensor]) -> None:
    near = 1.0 + 1e-3 * torch.linspace(1.0, 2.0, 64)
    golden = _dump(tmp_path / "golden", near, function)
    assert msprobe.compare(_dump(tmp_path / "rounded", _rounded(near), function), golden).verdict == "same"
    wrong = _dump(tmp_path / "wrong", near + 1e-5, function)
    assert msprobe.compare(wrong, golden).verdict == "diverged"
