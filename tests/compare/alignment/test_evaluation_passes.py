"""A pass in evaluation that one run makes more is not taken for a pass in training."""

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
    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.first, self.drop, self.last = torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.drop(torch.tanh(self.first(x)))
        if self.fault and self.training:
            hidden = hidden * 1.01  # fault
        return self.last(hidden)


def validate(net: Net, x: torch.Tensor, without_gradients: bool) -> None:
    net.eval()
    with torch.set_grad_enabled(not without_gradients):
        net(x).square().mean()
    net.train()


def record(
    folder: Path, validated: str = "", fault: bool = False, without_gradients: bool = True, back: bool = True
) -> None:
    """Two passes in training and, as ``validated`` says, one in evaluation; without ``back`` they all are in
    evaluation."""
    forget()
    torch.manual_seed(0)
    net = Net(fault).train(back)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=net):
        for place in ("before", "between"):
            if place == validated:
                validate(net, x, without_gradients)
            torch.manual_seed(2)
            net(x + (place == "between")).square().mean().backward()
        if validated == "after":
            validate(net, x, without_gradients)
    forget()


PLACES = ("before", "between", "after")


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("without_gradients", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_a_pass_in_evaluation_is_no_difference(recordings: Recordings, place: str, without_gradients: bool) -> None:
    pair = [recordings(record, place, False, without_gradients), recordings(record)]
    for both in (pair, pair[::-1]):
        assert msprobe.compare(*both).verdict == "same"


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("without_gradients", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_it_hides_no_fault_of_the_training_pass(recordings: Recordings, place: str, without_gradients: bool) -> None:
    pair = [recordings(record, place, True, without_gradients), recordings(record)]
    for side, both in enumerate((pair, pair[::-1])):
        found = msprobe.compare(*both).summary.first_divergence
        assert found is not None and "# fault" in (found.golden_source if side and found.target else found.source)


def test_a_model_that_stays_in_evaluation_is_named(recordings: Recordings) -> None:
    pair = [recordings(record, "", False, True, False), recordings(record)]
    found = msprobe.compare(*pair).summary.first_divergence
    assert found is not None and found.module == "drop.Dropout"
