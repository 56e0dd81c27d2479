"""Runs at level L1 have no modules, and no gradients with names: what leaves the step decides about other code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import msprobe  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402
from tests.recordings import Recordings  # noqa: E402

pytestmark = pytest.mark.torch
nn, F, Tensor = torch.nn, torch.nn.functional, torch.Tensor

Way = Callable[[nn.Linear, Tensor], Tensor]
WAYS: dict[str, Way] = {
    "layer": lambda layer, x: layer(x),
    "einsum": lambda layer, x: torch.einsum("bi,oi->bo", x, layer.weight) + layer.bias,
    "split": lambda layer, x: torch.cat(
        [F.linear(x, layer.weight[:8], layer.bias[:8]), F.linear(x, layer.weight[8:], layer.bias[8:])], 1
    ),
    "rows": lambda layer, x: torch.stack([layer(row) for row in x]),
    "factored": lambda layer, x: (F.linear(x, 2.0 * layer.weight) + 2.0 * layer.bias) / 2.0,
    "wrong factor": lambda layer, x: (F.linear(x, 2.0 * layer.weight) + layer.bias) / 2.0,  # <- here
    "wrong rows": lambda layer, x: torch.stack([layer(row) for row in x.roll(1, 0)]),  # <- here
    "cut": lambda layer, x: torch.einsum("bi,oi->bo", x, layer.weight.detach()) + layer.bias,  # <- here
}


def train(folder: Path, way: str, steps: int) -> None:
    forget()
    torch.manual_seed(0)
    first, second, last = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 3)
    parameters = [*first.parameters(), *second.parameters(), *last.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": "statistics"})
    for _ in range(steps):
        debugger.start()
        hidden = torch.tanh(WAYS[way](second, F.gelu(first(torch.randn(9, 6)))))
        loss = F.cross_entropy(last(hidden), torch.arange(9) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("way", ["einsum", "split", "rows", "factored"])
def test_other_code_is_the_same(recordings: Recordings, way: str, steps: int, turned: bool) -> None:
    pair = recordings(train, way, steps), recordings(train, "layer", steps)
    summary = msprobe.compare(*(pair[::-1] if turned else pair)).summary
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.parametrize("golden", ["layer", "split"])
@pytest.mark.parametrize("way", ["wrong factor", "wrong rows", "cut"])
def test_a_fault_beside_other_code_is_found(recordings: Recordings, way: str, golden: str) -> None:
    summary = msprobe.compare(recordings(train, way, 2), recordings(train, golden, 2)).summary
    assert summary.verdict == "diverged"
    assert summary.first_divergence is not None and summary.first_divergence.step == 0


def penalize(folder: Path, summed: bool, share: float = 0.5) -> None:
    """Train with a penalty of gradients, which are those of a sum, or of each row and in other words."""
    forget()
    torch.manual_seed(0)
    first, last = nn.Linear(6, 16), nn.Linear(16, 3)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": "statistics"})
    for _ in range(2):
        debugger.start()
        x = torch.randn(9, 6).requires_grad_()
        if summed:
            score = last(torch.tanh(first(x)))
            (slope,) = torch.autograd.grad(score.logsumexp(-1).sum(), x, create_graph=True)
            loss = F.cross_entropy(score, torch.arange(9) % 3) + share * (slope.norm(dim=1) - 1.0).square().mean()
        else:
            hidden = torch.addmm(first.bias, x, first.weight.T).tanh()
            score = torch.einsum("bi,oi->bo", hidden, last.weight) + last.bias
            rows = score.exp().sum(-1).log()
            (slope,) = torch.autograd.grad(rows, x, torch.ones(9), create_graph=True)
            apart = torch.sqrt((slope * slope).sum(1)) - 1.0
            loss = (rows - score[torch.arange(9), torch.arange(9) % 3]).sum() / 9 + share * (apart * apart).sum() / 9
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize(("share", "verdict"), [(0.5, "same"), (0.4, "diverged")])
def test_what_a_penalty_differentiates_is_no_loss(
    recordings: Recordings, share: float, verdict: str, turned: bool
) -> None:
    pair = recordings(penalize, turned, share), recordings(penalize, not turned)
    assert msprobe.compare(*pair).verdict == verdict
