"""Buffers that a module writes in place: no result of the step shows them, and they are kept for the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import msprobe  # noqa: E402
from msprobe.jobs.compare import CompareResult  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = pytest.mark.torch


class Following(torch.nn.Module):
    """Keeps a slow mean of what it sees."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.inner = how, torch.nn.Linear(4, 4)
        self.register_buffer("kept", torch.linspace(1, 2, 4))

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        with torch.no_grad():
            self.follow(y.mean(dim=0))
        return torch.tanh(y)

    def follow(self, mean: Any) -> None:
        if self.how == "lerp":
            self.kept.lerp_(mean, 0.1)
        elif self.how == "twice":
            self.kept.mul_(0.9).add_(mean, alpha=0.2)  # fault
        elif self.how == "of the sum":
            self.kept.mul_(0.9).add_(mean * 4, alpha=0.1)  # fault
        else:
            self.kept.mul_(0.9).add_(mean, alpha=0.1)


def compared(folder: Path, target: str, golden: str = "mul and add") -> CompareResult:
    for name, how in (("target", target), ("golden", golden)):
        forget()
        torch.manual_seed(0)
        model = Following(how)
        debugger = PrecisionDebugger({"dump_path": str(folder / name), "level": "mix", "task": "statistics"})
        with debugger.collect(model=model):
            model(torch.arange(12.0).view(3, 4) / 7).square().sum().backward()
        forget()
    return msprobe.compare(folder / "target", folder / "golden")


@pytest.mark.parametrize("how", ["twice", "of the sum"])
def test_a_buffer_that_becomes_another_one_is_named_in_its_first_step(tmp_path: Path, how: str) -> None:
    result = compared(tmp_path, how)
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None and str(found.source).endswith("# fault")


def test_the_same_buffer_by_another_call_is_the_same(tmp_path: Path) -> None:
    assert compared(tmp_path, "lerp").verdict == "same"
