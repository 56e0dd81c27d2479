"""One process that computes a batch in several micro batches, against one that computes it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(6, 12), nn.LayerNorm(12), nn.Linear(12, 4)

    def forward(self, x: torch.Tensor, factor: float) -> torch.Tensor:
        return self.down(torch.tanh(self.norm(self.up(x))) * factor)


def record(folder: Path, count: int, fault: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model, batch = Net(), torch.randn(8, 6)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    debugger.start(model)
    for number, part in enumerate(batch.chunk(count)):
        factor = 1.02 if fault == "activation" and number == count - 1 else 1.0
        loss = model(part, factor).square().mean()
        (loss if fault == "loss" else loss / count).backward()
    debugger.stop()
    debugger.step()


@pytest.mark.parametrize("turned", [False, True], ids=["target", "golden"])
def test_micro_batches_are_the_batch(recordings: Recordings, turned: bool) -> None:
    pair = recordings(record, 4, ""), recordings(record, 1, "")
    summary = msprobe.compare(*(reversed(pair) if turned else pair)).summary
    assert summary.verdict == "same", summary.reason
    assert summary.counts.pairs > 10


@pytest.mark.parametrize(("fault", "module"), [("activation", "down"), ("loss", "down")])
def test_a_fault_in_a_micro_batch_is_named(recordings: Recordings, fault: str, module: str) -> None:
    found = msprobe.compare(recordings(record, 4, fault), recordings(record, 1, "")).summary.first_divergence
    assert found is not None and found.module is not None and found.module.startswith(module)


def test_another_number_of_calls_is_no_micro_batch(recordings: Recordings) -> None:
    """Two of four parts: what is missing is a difference."""
    summary = msprobe.compare(recordings(record_half, 4), recordings(record, 1, "")).summary
    assert summary.verdict == "diverged"


def record_half(folder: Path, count: int) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model, batch = Net(), torch.randn(8, 6)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    debugger.start(model)
    for part in batch.chunk(count)[: count // 2]:
        (model(part, 1.0).square().mean() / count).backward()
    debugger.stop()
    debugger.step()
