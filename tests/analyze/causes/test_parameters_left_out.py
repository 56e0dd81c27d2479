"""A parameter that the optimizer of one side leaves out, in a model that computes in other words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.recordings import Recordings


class Adapted(nn.Module):
    """A layer with a small product beside it, as two calls or folded into its weight."""

    def __init__(self, ways: set[str]) -> None:
        super().__init__()
        self.ways = ways
        self.base = nn.Linear(6, 5)
        self.base.requires_grad_("trained" in ways)
        self.down, self.up = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.randn(5, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "folded" in self.ways:
            return F.linear(x, self.base.weight + self.up @ self.down, self.base.bias)
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


def train(folder: Path, ways: str) -> None:
    """Record two steps; ``ways`` are words: ``folded`` and ``all`` (frozen parameters in the optimizer, too) are
    harmless, ``trained`` is the fault."""
    forget()
    torch.manual_seed(0)
    words = set(ways.split())
    model = nn.Sequential(nn.Linear(4, 6), Adapted(words), nn.Linear(5, 2))
    chosen = [one for one in model.parameters() if one.requires_grad or "all" in words]
    optimizer = torch.optim.SGD(chosen, lr=0.1, momentum=0.9)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for _ in range(2):
        debugger.start(model)
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


@pytest.mark.parametrize("ways", ["folded", "all", "folded all"])
def test_frozen_parameters_make_no_difference(recordings: Recordings, ways: str) -> None:
    sides = recordings(train, ways), recordings(train, "")
    assert [msprobe.compare(*pair).verdict for pair in (sides, sides[::-1])] == ["same", "same"]


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_a_parameter_that_one_side_trains_is_named_beside_other_code(recordings: Recordings, turned: bool) -> None:
    sides = recordings(train, "folded trained"), recordings(train, "")
    found = msprobe.compare(*(sides[::-1] if turned else sides)).summary.first_divergence
    assert found is not None and (found.module, found.step) == ("optimizer", 0)
    with_it, without = ("golden run", "target") if turned else ("target", "golden run")
    assert f"the optimizers of the {with_it} have 1.base.weight, those of the {without} have not" in found.reason
    assert "optimizer.step()" in found.source


def test_the_parameter_itself_is_named_where_its_module_is_called(recordings: Recordings) -> None:
    found = msprobe.compare(recordings(train, "trained"), recordings(train, "")).summary.first_divergence
    assert found is not None and found.module == "1.base.Linear" and "requires_grad" in found.reason
