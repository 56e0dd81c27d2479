"""What a step makes and changes in place is no state: a later call shows what has become of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.fresh_debugger import forget

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


@torch.no_grad()
def shares(scores: Any, factor: float) -> Any:
    """Even out the columns of scores by rows, in place."""
    evened = torch.exp(scores / 0.5)
    evened /= evened.sum()
    for _ in range(2):
        evened /= evened.sum(dim=0, keepdim=True)
        evened /= evened.sum(dim=1, keepdim=True)
    evened *= factor
    return evened * 2


def train(folder: Path, *, sorted_queue: bool, factor: float = 1.0, kept: float = 1.0) -> str:
    """One step with soft labels that a queue of older rows has a part in, which comes in any order."""
    forget()
    torch.manual_seed(0)
    model, older = nn.Linear(6, 4), torch.randn(5, 6)
    state = torch.linspace(1, 2, 6)
    queue = older if sorted_queue else older.flip(0)
    x = torch.randn(7, 6)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    debugger.start(model)
    scores = model(x)
    with torch.no_grad():
        others = queue @ model.weight.t() + model.bias
        state.mul_(0.9 * kept)
    labels = shares(torch.cat([others, scores.detach()]), factor)[-7:]
    if sorted_queue:
        loss = -(labels * F.log_softmax(scores, -1)).sum(-1).mean()
    else:
        loss = F.cross_entropy(scores, labels)
    loss.backward()
    loss.item()
    debugger.stop()
    forget()
    return str(folder)


def test_elements_in_another_order_on_the_way_are_no_difference(tmp_path: Path) -> None:
    golden = train(tmp_path / "golden", sorted_queue=True)
    target = train(tmp_path / "target", sorted_queue=False)
    assert msprobe.compare(target, golden).verdict == "same"
    assert msprobe.compare(golden, target).verdict == "same"


@pytest.mark.parametrize("wrong", [{"factor": 1.01}, {"kept": 1.01}])
def test_a_wrong_factor_and_another_state_are(tmp_path: Path, wrong: dict[str, float]) -> None:
    golden = train(tmp_path / "golden", sorted_queue=True)
    target = train(tmp_path / "target", sorted_queue=False, **wrong)
    assert msprobe.compare(target, golden).verdict == "diverged"
