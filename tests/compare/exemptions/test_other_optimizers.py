"""Implementations of one optimizer that share no call: the parameters after the step decide."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from torch import nn

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch

IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "single": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
STEPS = 3


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a training with each implementation, right and with gradients of the wrong sign in the last step."""
    root = tmp_path_factory.mktemp("optimizers")
    for name, fault in itertools.product(IMPLEMENTATIONS, (False, True)):
        train(root / f"{name}-{fault}", IMPLEMENTATIONS[name], fault=fault)
    for name, fault in itertools.product(("single", "foreach"), (False, True)):
        train(root / f"functions-{name}-{fault}", IMPLEMENTATIONS[name], fault=fault, level="L1")
    return root


def train(folder: Path, implementation: dict[str, bool], *, fault: bool, level: str = "mix") -> None:
    forget()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, **implementation)  # type: ignore[arg-type]
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "statistics"})
    for step in range(STEPS):
        debugger.start(model)
        optimizer.zero_grad()
        model(torch.ones(6, 4)).square().mean().backward()
        for parameter in model.parameters() if fault and step == STEPS - 1 else ():
            parameter.grad = -parameter.grad  # type: ignore[operator]
        optimizer.step()
        debugger.stop()
        debugger.step()


SINGLE, FOREACH = "functions-single", "functions-foreach"


@pytest.mark.parametrize(
    ("target", "golden"), [*itertools.permutations(IMPLEMENTATIONS, 2), (SINGLE, FOREACH), (FOREACH, SINGLE)]
)
def test_another_implementation_is_the_same_and_its_last_step_is_judged(
    recorded: Path, target: str, golden: str
) -> None:
    assert msprobe.compare(recorded / f"{target}-False", recorded / f"{golden}-False").verdict == "same"
    for left, right in ((True, False), (False, True)):
        result = msprobe.compare(recorded / f"{target}-{left}", recorded / f"{golden}-{right}")
        assert result.verdict == "diverged"
        first = result.summary.first_divergence
        assert first is not None and first.step == STEPS - 1
