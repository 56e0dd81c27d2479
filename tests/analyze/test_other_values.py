"""Another value than the golden run gives: whose results the two values are; a parameter that begins apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch


class Written(torch.autograd.Function):
    """A function of the program that calls nothing that is recorded."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factors: tuple[float, float]) -> torch.Tensor:
        ctx.factor = factors[1]
        return torch.from_numpy(np.tanh(x.detach().numpy()) * np.float32(factors[0]))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return torch.from_numpy(gradient.numpy() * np.float32(ctx.factor)), None


def written(folder: Path, *factors: float) -> None:
    forget()
    torch.manual_seed(0)
    first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=torch.nn.ModuleDict({"first": first, "last": last})):
        hidden = first(torch.randn(3, 4))
        changed = Written.apply(hidden, factors)
        last(changed).square().mean().backward()
    forget()


def test_a_function_of_the_program_lies_between_the_lines_that_are_named(recordings: Recordings) -> None:
    right = recordings(written, 1.0, 1.0)
    found = msprobe.compare(recordings(written, 1.5, 1.0), right).summary.first_divergence
    assert found is not None and (found.target, found.slot) == ("Module.last.Linear.forward.0", "input.0")
    assert "what makes it leaves no record" in found.reason and "a function of autograd" in found.reason
    before = "the call before it, Module.first.Linear.forward.0, agrees"
    assert before in found.reason and "hidden = first(torch.randn(3, 4))" in found.reason
    found = msprobe.compare(recordings(written, 1.0, 1.5), right).summary.first_divergence
    assert found is not None and found.target == "Functional.linear.0.backward"
    returned = "the golden run what Functional.linear.1.backward returns"
    assert f"the target gives it a value that no recorded call returns, {returned}" in found.reason
    assert "last(changed).square().mean().backward()" in found.reason and "first(torch" in found.source


class Net(torch.nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.mean, self.variance, self.fault = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3), fault
        self.low = Low(fault)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, variance = self.mean(x), self.variance(x)
        if self.fault == "exchanged":
            mean, variance = variance, mean
        deviation = torch.exp(0.5 * (mean if self.fault == "mean for variance" else variance))
        if self.fault == "masked":
            deviation = deviation.triu()
        return self.low(mean + deviation)


class Low(torch.nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 3) * (2.0 if fault == "begins apart" else 1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.T


def record(folder: Path, fault: str) -> None:
    forget()
    torch.manual_seed(0)
    model = Net(fault)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(torch.randn(3, 4)).square().mean().backward()
    forget()


MEAN, VARIANCE, EXP = "Module.mean.Linear.forward.0", "Module.variance.Linear.forward.0", "Torch.exp.0.forward"


@pytest.mark.parametrize(
    ("fault", "values"),
    [
        ("exchanged", f"the target gives it what {MEAN} returns, the golden run what {VARIANCE} returns"),
        ("mean for variance", f"the target gives it what {MEAN} returns, the golden run what {VARIANCE} returns"),
        (
            "masked",
            f"the target gives it a value that no recorded call returns, the golden run what {EXP} returns; "
            f"the call before it, {EXP}, agrees (",
        ),
    ],
)
def test_a_wrong_input_says_whose_results_the_runs_give(recordings: Recordings, fault: str, values: str) -> None:
    found = msprobe.compare(recordings(record, fault), recordings(record, "")).summary.first_divergence
    assert found is not None and f"; its input differs: {values}" in found.reason, found


def test_a_parameter_of_which_a_call_gets_a_view_is_named(recordings: Recordings) -> None:
    found = msprobe.compare(recordings(record, "begins apart"), recordings(record, "")).summary.first_divergence
    assert found is not None and (found.module, found.slot) == ("low.Low", "parameters.weight"), found
    assert found.reason.endswith("; a parameter of this module")
