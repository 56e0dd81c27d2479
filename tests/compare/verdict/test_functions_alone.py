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
