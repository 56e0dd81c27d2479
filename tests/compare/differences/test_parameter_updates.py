"""What an optimizer updates and the program does not keep is told, also within the rounding of 16 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch

STEPS = 2
KINDS = ("kept", "noisy", "vectors-lost", "all-lost", "small-rate")


class Copies:
    """Updates parameters in 32 bits and writes them back."""

    def __init__(self, parameters: list[Any], kind: str) -> None:
        self.parameters, self.kind = parameters, kind
        self.main = [nn.Parameter(each.detach().float()) for each in parameters]
        self.inner = torch.optim.AdamW(self.main, lr=1e-5 if kind == "small-rate" else 1e-2)

    def step(self) -> None:
        for main, each in zip(self.main, self.parameters, strict=True):
            main.grad = each.grad.float() * (1.001 if self.kind == "noisy" else 1.0)
        self.inner.step()
        with torch.no_grad():
            for main, each in zip(self.main, self.parameters, strict=True):
                if self.kind != "all-lost" and (self.kind != "vectors-lost" or each.ndim > 1):
                    each.copy_(main)


def record(folder: Path, kind: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    layers = [nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 16)]
    model = nn.Sequential(*layers).to(torch.bfloat16)
    optimizer = Copies(list(model.parameters()), kind)
    debugger = PrecisionDebugger(task="statistics", level="L0", dump_path=str(folder))
    for _ in range(STEPS):
        debugger.start(model)
        model.zero_grad()
        model(torch.randn(32, 16, dtype=torch.bfloat16)).float().square().mean().backward()
        optimizer.step()
        debugger.stop()
        debugger.step()


def _compared(recordings: Recordings, target: str, golden: str) -> Any:
    return msprobe.compare(recordings(record, target), recordings(record, golden)).summary


@pytest.mark.parametrize("kind", ["vectors-lost", "all-lost"])
def test_an_update_that_is_not_kept_is_named(recordings: Recordings, kind: str) -> None:
    found = _compared(recordings, kind, "kept").first_divergence
    assert found is not None
    assert (found.step, found.module, found.kind) == (1, "optimizer", "not_updated")
    assert "in step before" in found.reason.replace("the ", "")
    assert ": optimizer.step()" in found.source, "the statement that makes the whole update"


def test_rounding_is_no_lost_update(recordings: Recordings) -> None:
    assert _compared(recordings, "noisy", "kept").first_divergence is None


def test_updates_below_the_last_digit_are_lost_on_both_sides(recordings: Recordings) -> None:
    assert _compared(recordings, "small-rate", "small-rate").verdict == "same"
