"""Clipping, or the step of an optimizer, before or after another call: the order is named, no call is missing."""

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
ORDERS = {
    "right": "unscale clip step average",
    "clip first": "clip unscale step average",
    "average first": "unscale clip average step",
    "unseen": "unscale_unseen clip step average",
    "clip before unseen": "clip unscale_unseen step average",
}


def record(folder: Path, order: str) -> None:
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    average = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def unscale() -> None:
        for parameter in model.parameters():
            parameter.grad *= 1 / 64

    def unscale_unseen() -> None:
        factor = torch.tensor(64.0).reciprocal().item()
        for parameter in model.parameters():
            parameter.grad.numpy()[...] *= factor

    def follow() -> None:
        with torch.no_grad():
            torch._foreach_lerp_(average, list(model.parameters()), 0.3)

    calls = {
        "unscale": unscale,
        "unscale_unseen": unscale_unseen,
        "clip": lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1),
        "step": optimizer.step,
        "average": follow,
    }
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for _ in range(3):
        with debugger.collect(model=model):
            optimizer.zero_grad()
            (model(torch.randn(3, 4)).square().mean() * 64).backward()
            for name in ORDERS[order].split():
                calls[name]()
    forget()


@pytest.mark.parametrize(
    ("order", "golden", "reason"),
    [
        ("clip first", "right", "what Tensor.__imul__.0.forward returns, and the target makes that call afterwards"),
        ("average first", "right", "what Tensor.add_.0.forward returns, and the target makes that call afterwards"),
        ("clip before unseen", "unseen", "in another order: the target makes this call before Tensor.reciprocal."),
    ],
)
def test_the_order_is_named(recordings: Recordings, order: str, golden: str, reason: str) -> None:
    found = msprobe.compare(recordings(record, order), recordings(record, golden)).summary.first_divergence
    assert found is not None and reason in found.reason, found.reason
