"""A bias before a norm is moved by an optimizer that makes a step of rounding: what it offsets, the norm removes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch

STEPS = 3


class Layer(nn.Module):
    """A linear layer, code that leaves no record, and a norm over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(16)
        self.step = 0

    def forward(self, x: Any) -> Any:
        return self.norm(torch.cat((self.first(x), self.second(x)), dim=1))


class OtherOrder(Layer):
    """Adds in another order, which rounds otherwise."""

    def forward(self, x: Any) -> Any:
        first = torch.einsum("bc,oc->bo", x, self.first.weight) + self.first.bias
        return self.norm(torch.cat((first, self.second(x)), dim=1))


class BentLater(OtherOrder):
    """Adds too much from the second step on, which no norm removes."""

    def forward(self, x: Any) -> Any:
        first = torch.einsum("bc,oc->bo", x, self.first.weight) + self.first.bias
        if self.step:
            first = first + 1e-3 * first.square()  # <- here
        return self.norm(torch.cat((first, self.second(x)), dim=1))


class ForgetsLater(OtherOrder):
    """Follows the average of the batch faster than the other from the second step on."""

    def forward(self, x: Any) -> Any:
        if self.step:
            self.norm.momentum = 0.5
        return super().forward(x)


LAYERS = {layer.__name__: layer for layer in (Layer, OtherOrder, BentLater, ForgetsLater)}


def record(folder: Path, name: str, level: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    layer, head = LAYERS[name](), nn.Linear(16, 3)
    torch.manual_seed(1)
    model = nn.ModuleDict({"layer": layer, "head": head})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = PrecisionDebugger(task="statistics", level=level, dump_path=str(folder))
    for step in range(STEPS):
        layer.step = step
        debugger.start(model)
        optimizer.zero_grad()
        x, wanted = torch.randn(12, 6), torch.randint(3, (12,))
        F.cross_entropy(head(torch.relu(layer(x))), wanted).backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


def verdict(recordings: Recordings, target: str, golden: str, level: str = "mix") -> CompareSummary:
    return msprobe.compare(recordings(record, target, level), recordings(record, golden, level)).summary


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_what_a_moved_bias_offsets_is_no_divergence_where_a_norm_removes_it(
    turned: bool, recordings: Recordings
) -> None:
    sides = ("Layer", "OtherOrder") if turned else ("OtherOrder", "Layer")
    summary = verdict(recordings, *sides)
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_a_fault_between_the_bias_and_the_norm_is_named(turned: bool, recordings: Recordings) -> None:
    sides = ("Layer", "BentLater") if turned else ("BentLater", "Layer")
    found = verdict(recordings, *sides).first_divergence
    assert found is not None and found.step == 1
    assert "layer" in (found.module or "") or Path(__file__).name in found.source, found


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
def test_another_average_is_named_beside_a_moved_bias(turned: bool, recordings: Recordings) -> None:
    sides = ("Layer", "ForgetsLater") if turned else ("ForgetsLater", "Layer")
    found = verdict(recordings, *sides).first_divergence
    assert found is not None and found.step == 1
    assert found.target is not None and "batch_norm" in found.target and "argument" in found.reason, found
