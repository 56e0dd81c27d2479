"""Another value than the golden run gives: whose results the two values are; a parameter that begins apart."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch


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
            f"the target gives it a value that no recorded call returns, the golden run what {EXP} returns",
        ),
    ],
)
def test_a_wrong_input_says_whose_results_the_runs_give(recordings: Recordings, fault: str, values: str) -> None:
    found = msprobe.compare(recordings(record, fault), recordings(record, "")).summary.first_divergence
    assert found is not None and found.reason.endswith(f"its input differs: {values}"), found


def test_a_parameter_of_which_a_call_gets_a_view_is_named(recordings: Recordings) -> None:
    found = msprobe.compare(recordings(record, "begins apart"), recordings(record, "")).summary.first_divergence
    assert found is not None and (found.module, found.slot) == ("low.Low", "parameters.weight"), found
    assert found.reason.endswith("; a parameter of this module")
