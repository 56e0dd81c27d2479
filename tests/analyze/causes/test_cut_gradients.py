"""A gradient that one run lacks is named where it is cut off, and not where it shows."""

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


class Cell(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.inner(x)) * 0.5 + state * torch.sigmoid(x)


class Recurrent(torch.nn.Module):
    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.cell, self.cut = Cell(), cut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = self.cell(x, x)
        if self.cut:
            return self.cell(x, state.detach())  # cut
        return self.cell(x, state)  # whole


def record(folder: Path, cut: bool) -> None:
    forget()
    torch.manual_seed(0)
    model = Recurrent(cut)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(x).square().sum().backward()
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_a_detached_state_is_named_where_it_is_given(recordings: Recordings, turned: bool) -> None:
    pair = [recordings(record, True), recordings(record, False)]
    result: Any = msprobe.compare(*(reversed(pair) if turned else pair))
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found.module is None
    assert found.source.endswith("# whole" if turned else "# cut")
    side = "golden run" if turned else "target"
    assert f"what Module.cell.Cell.forward.1 gets does not require a gradient in the {side}" in found.reason


def test_the_same_program_has_no_finding(recordings: Recordings, tmp_path: Path) -> None:
    record(tmp_path / "again", True)
    assert msprobe.compare(recordings(record, True), tmp_path / "again").verdict == "same"


class Rounding(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.inner, self.last = how, torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        rounded = torch.round(y.detach())
        if self.how == "through":
            rounded = y + (rounded - y).detach()  # keeps
        return self.last(rounded)


def record_rounding(folder: Path, how: str) -> None:
    forget()
    torch.manual_seed(0)
    model = Rounding(how)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(x).square().sum().backward()
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_what_keeps_a_gradient_on_one_side_is_named(recordings: Recordings, turned: bool) -> None:
    pair = [recordings(record_rounding, "not"), recordings(record_rounding, "through")]
    found: Any = msprobe.compare(*(reversed(pair) if turned else pair)).summary.first_divergence
    assert found is not None and found.source.endswith("# keeps")


def record_inner_step(folder: Path, whole: bool) -> None:
    forget()
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        error = torch.tanh(model(x)).square().sum()
        (slope,) = torch.autograd.grad(error, [model.weight], create_graph=whole)
        moved = model.weight - 0.1 * slope  # moved
        torch.nn.functional.linear(x, moved).square().sum().backward()
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_a_gradient_that_is_taken_for_a_constant_is_named(recordings: Recordings, turned: bool) -> None:
    pair = [recordings(record_inner_step, False), recordings(record_inner_step, True)]
    found: Any = msprobe.compare(*(reversed(pair) if turned else pair)).summary.first_divergence
    assert found is not None and found.source.endswith("# moved")


class Residual(torch.nn.Module):
    """The gradient of its input comes from two sides, so its backward call is recorded before the calls inside."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.norm, self.inner, self.fault = torch.nn.LayerNorm(4), torch.nn.Linear(4, 4), fault

    def mixed(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.inner(hidden))  # mixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(x)
        if self.fault == "cut":
            hidden = hidden.detach()
        return x + self.mixed(hidden)


def record_residual(folder: Path, fault: str) -> None:
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Residual(""), Residual(fault))
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(x).square().sum().backward()
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_a_cut_inside_of_a_module_is_named_there(recordings: Recordings, turned: bool) -> None:
    """The module around it has a wrong gradient too, which is recorded first."""
    pair = [recordings(record_residual, "cut"), recordings(record_residual, "")]
    result: Any = msprobe.compare(*(reversed(pair) if turned else pair))
    found, side = result.summary.first_divergence, "golden run" if turned else "target"
    assert result.verdict == "diverged" and found.source.endswith("# mixed")
    assert (found.module, found.golden_module) == ("2.Residual", "2.Residual")
    assert found.kind_words == f"no gradient in the {side}" and f"no gradient in the {side} (null)" in found.reason
    assert f"what Module.2.inner.Linear.forward.0 gets does not require a gradient in the {side}" in found.reason
