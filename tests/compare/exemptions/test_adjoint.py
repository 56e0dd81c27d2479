"""The adjoint of an integration calls its function in the backward pass at other points: such calls repeat nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

pytestmark = pytest.mark.torch


class Field(torch.nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.inner = way, torch.nn.Linear(3, 3)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        cube = y * y * y if self.way == "product" else y**3
        return self.inner(cube * 0.9 if self.way == "scaled" else cube)


class Integral(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, field: Field, y: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        points = [y]
        for _ in range(3):
            points.append(points[-1] + 0.1 * field(points[-1]))
        ctx.field, ctx.parameters = field, parameters
        ctx.save_for_backward(*points)
        return points[-1]

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (adjoint,) = given
        totals = [torch.zeros_like(parameter) for parameter in ctx.parameters]
        for point in reversed(ctx.saved_tensors[1:]):
            with torch.enable_grad():
                y = point.detach().requires_grad_()
                own, *others = torch.autograd.grad(ctx.field(y), (y, *ctx.parameters), adjoint)
            adjoint = adjoint + 0.1 * own
            totals = [total + 0.1 * other for total, other in zip(totals, others, strict=True)]
        return None, adjoint, *totals


def record(folder: Path, way: str) -> None:
    forget()
    torch.manual_seed(0)
    field, y = Field(way), torch.randn(5, 3)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=field):
        Integral.apply(field, y, *field.parameters()).square().mean().backward()
    forget()


def test_another_formula_at_other_points_is_no_difference(recordings: Recordings) -> None:
    one, two = recordings(record, "power"), recordings(record, "product")
    for sides in ((one, two), (two, one)):
        assert msprobe.compare(*sides).verdict == "same"


def test_a_fault_in_the_field_is_named(recordings: Recordings) -> None:
    first = msprobe.compare(recordings(record, "scaled"), recordings(record, "power")).summary.first_divergence
    assert first is not None and "self.inner(cube * 0.9" in first.source
