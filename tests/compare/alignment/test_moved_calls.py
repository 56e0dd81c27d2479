"""Functions that both runs call from the same line, in another order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import msprobe
from msprobe.jobs.compare import CompareResult
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch


def average(kept: torch.Tensor, value: torch.Tensor) -> None:
    kept.mul_(0.9).add_(value, alpha=0.1)


def squared(x: torch.Tensor) -> torch.Tensor:
    return torch.square(x)


def record(folder: Path, program: Callable[[nn.Linear, torch.Tensor], None]) -> Path:
    torch.manual_seed(0)
    model, kept = nn.Linear(3, 2), torch.ones(2, 3)
    forget()
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        program(model, kept)
    forget()
    return folder


def compared(tmp_path: Path, target: Callable[..., None], golden: Callable[..., None]) -> CompareResult:
    return msprobe.compare(record(tmp_path / "target", target), record(tmp_path / "golden", golden))


def update(model: nn.Linear) -> None:
    with torch.no_grad():
        torch.neg(model.weight, out=model.weight)


def averaged_after(model: nn.Linear, kept: torch.Tensor) -> None:
    update(model)
    torch.abs(model.weight)
    average(kept, model.weight.detach())


def averaged_before(model: nn.Linear, kept: torch.Tensor) -> None:
    average(kept, model.weight.detach())
    update(model)
    torch.abs(model.weight)


def test_a_statement_that_was_moved_is_judged_by_its_values(tmp_path: Path) -> None:
    result = compared(tmp_path, averaged_before, averaged_after)
    assert result.verdict == "diverged"
    first = result.summary.first_divergence
    assert first is not None
    assert first.target == "Tensor.add_.0.forward"
    assert "in average" in (first.source or "")


def one_first(model: nn.Linear, kept: torch.Tensor) -> None:
    squared(kept)
    torch.exp(kept)
    squared(kept * 2.0)


def other_first(model: nn.Linear, kept: torch.Tensor) -> None:
    squared(kept * 2.0)
    torch.exp(kept)
    squared(kept)


def test_calls_of_the_same_values_pair_whatever_their_order(tmp_path: Path) -> None:
    result = compared(tmp_path, one_first, other_first)
    assert (result.verdict, result.summary.first_divergence) == ("same", None)


def twice(model: nn.Linear, kept: torch.Tensor) -> None:
    squared(kept)
    torch.exp(kept)
    squared(kept)
    torch.abs(kept)


def once(model: nn.Linear, kept: torch.Tensor) -> None:
    torch.exp(kept)
    torch.abs(kept)
    squared(kept)


def test_a_line_that_runs_another_number_of_times_is_other_code(tmp_path: Path) -> None:
    result = compared(tmp_path, twice, once)
    assert result.verdict == "same"
    assert any("code differs" in note for note in result.outcomes[0].harmless)
