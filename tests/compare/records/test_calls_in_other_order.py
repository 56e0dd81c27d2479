"""A module that one run calls in another order: the calls pair by what they get, and hide no fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import msprobe  # noqa: E402
from msprobe.jobs.compare import CompareResult  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = pytest.mark.torch

Program = Callable[["Model"], torch.Tensor]
LARGE, SMALL = torch.randn(2, 6, 4), torch.randn(2, 3, 4)


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.inner(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head, self.cell = Head(), nn.Linear(4, 4)


def large_first(model: Model) -> torch.Tensor:
    levels = [model.head(x) * stride for x, stride in ((LARGE, 4), (SMALL, 8))]
    return torch.cat(levels, dim=1).square().mean()


def small_first(model: Model) -> torch.Tensor:
    levels = [model.head(x) * stride for x, stride in ((SMALL, 8), (LARGE, 4))]
    return torch.cat(levels[::-1], dim=1).square().mean()


def small_first_with_one_stride(model: Model) -> torch.Tensor:
    levels = [model.head(x) * stride for x, stride in ((SMALL, 4), (LARGE, 4))]  # fault
    return torch.cat(levels[::-1], dim=1).square().mean()


def parts(model: Model, *order: int) -> torch.Tensor:
    batch = LARGE.unflatten(1, (3, 2))
    losses = [model.head(batch[:, part]).square().mean() * (1 + part) for part in order]
    return torch.stack(losses).sum()


def in_order(model: Model) -> torch.Tensor:
    return parts(model, 0, 1, 2)


def in_another_order(model: Model) -> torch.Tensor:
    return parts(model, 2, 0, 1)


def one_part_twice(model: Model) -> torch.Tensor:
    return parts(model, 2, 0, 0)


def over_time(model: Model) -> torch.Tensor:
    state = LARGE[:, 0]
    for now in range(1, 4):
        state = torch.tanh(model.cell(state) + LARGE[:, now])
    return state.square().mean()


def over_time_of_other_words(model: Model) -> torch.Tensor:
    state = LARGE[:, 0]
    for now in (2, 1, 3):
        state = torch.tanh(model.cell(state) + LARGE[:, now])  # fault
    return state.square().mean()


def record(folder: Path, program: Program) -> Path:
    torch.manual_seed(0)
    model = Model()
    forget()
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        program(model).backward()
    forget()
    return folder


def compared(tmp_path: Path, target: Program, golden: Program) -> CompareResult:
    return msprobe.compare(record(tmp_path / "target", target), record(tmp_path / "golden", golden))


@pytest.mark.parametrize(("target", "golden"), [(small_first, large_first), (in_another_order, in_order)])
def test_independent_calls_may_come_in_another_order(tmp_path: Path, target: Program, golden: Program) -> None:
    result = compared(tmp_path, target, golden)
    assert result.verdict == "same", result.summary.first_divergence


def test_a_fault_beside_another_order_is_named(tmp_path: Path) -> None:
    result = compared(tmp_path, small_first_with_one_stride, large_first)
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None and str(found.source).endswith("# fault")


@pytest.mark.parametrize(("target", "golden"), [(one_part_twice, in_order), (over_time_of_other_words, over_time)])
def test_other_inputs_are_no_other_order(tmp_path: Path, target: Program, golden: Program) -> None:
    assert compared(tmp_path, target, golden).verdict == "diverged"
