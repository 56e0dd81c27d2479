"""Parameters that differ first: which one a call gets, and what has changed it where no optimizer has."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import msprobe
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch


class Projection(nn.Module):
    """The outermost module, of which no call is recorded, reads a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.weight = nn.Linear(4, 4), nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.layer(x), self.weight)


def own_weight(folder: Path, level: str, begin: float = 1.0, later: float = 1.0) -> None:
    """Two steps; the weight begins ``begin`` times as large, and is ``later`` times as large between the steps."""
    forget()
    torch.manual_seed(0)
    model = Projection()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.weight.data.mul_(begin)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "statistics"})
    for _ in range(2):
        x = torch.randn(3, 4)
        debugger.start(model)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
        model.weight.data.mul_(later)
    forget()


def moving_average(folder: Path, level: str, decay: float, rate: float = 0.1) -> None:
    """A student, and a teacher that follows it after each step, outside of what is recorded."""
    forget()
    torch.manual_seed(0)
    student = nn.Linear(4, 4)
    models = nn.ModuleDict({"teacher": copy.deepcopy(student), "student": student})
    optimizer = torch.optim.SGD(student.parameters(), lr=rate)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "statistics"})
    for _ in range(3):
        x = torch.randn(3, 4)
        debugger.start(models)
        with torch.no_grad():
            wanted = models["teacher"](x) + 1.0
        optimizer.zero_grad()
        (student(x) - wanted).square().mean().backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
        for own, other in zip(models["teacher"].parameters(), student.parameters(), strict=True):
            own.data.mul_(decay).add_(other.data, alpha=1.0 - decay)
    forget()


def found(target: Path, golden: Path) -> FirstDivergence:
    first = msprobe.compare(target, golden).summary.first_divergence
    assert first is not None
    return first


@pytest.mark.parametrize("level", ["mix", "L0"])
def test_a_moving_average_is_changed_by_no_optimizer(recordings: Recordings, level: str) -> None:
    first = found(recordings(moving_average, level, 0.9), recordings(moving_average, level, 0.99))
    assert (first.step, first.module, first.slot) == (1, "teacher.Linear", "parameters.weight")
    assert "something that is no optimizer has changed teacher.weight between the steps (" in first.reason


def test_a_moving_average_of_wrong_parameters_is_no_cause(recordings: Recordings) -> None:
    first = found(recordings(moving_average, "mix", 0.9), recordings(moving_average, "mix", 0.9, 0.2))
    assert first.module == "optimizer" and "the learning rate of SGD is 0.1 in the target" in first.reason


@pytest.mark.parametrize(
    ("level", "which"), [("mix", "the parameter weight"), ("L1", "a parameter, which the step updates")]
)
def test_a_parameter_that_no_module_records_is_told_from_results(
    recordings: Recordings, level: str, which: str
) -> None:
    first = found(recordings(own_weight, level), recordings(own_weight, level, 1.1))
    assert (first.step, first.target, first.slot) == (0, "Functional.linear.1.forward", "input.1")
    words = "it begins differently, or was changed outside of the recorded calls"
    assert first.reason.endswith(f"; its input differs: {which}; {words}")


def test_the_run_that_changes_a_parameter_between_the_steps_is_named(recordings: Recordings) -> None:
    first = found(recordings(own_weight, "mix"), recordings(own_weight, "mix", 1.0, 1.1))
    assert (first.step, first.slot) == (1, "input.1")
    assert "no optimizer has changed weight between the steps in the golden run alone (" in first.reason
    first = found(recordings(own_weight, "L1"), recordings(own_weight, "L1", 1.0, 1.1))
    assert "the step before agrees, so its update differs, or something else changed it" in first.reason
