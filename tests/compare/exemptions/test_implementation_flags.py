"""Arguments that say how a call computes are no difference; what they do to other values is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import msprobe
from msprobe.pytorch import PrecisionDebugger
from tests.compare.dumps import call, number, tensor, write
from tests.fresh_debugger import forget
from tests.recordings import Recordings


class Model(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.conv, self.norm = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)
        self.act, self.drop, self.head = nn.ReLU("written" in way), nn.Dropout(0.0, "written" in way), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.act(self.norm(self.conv(x))))
        late = x - 0.4
        positive = F.relu(late, inplace="over" in self.way)
        x = x + positive + late * (1.25 if "larger" in self.way else 1.0)  # used
        return self.head(x.mean((2, 3)))


def train(folder: Path, way: str) -> None:
    """Record a step: ``written`` in place where nobody sees it, ``over`` what is used later; ``larger`` is a fault."""
    forget()
    torch.manual_seed(0)
    model = Model(way)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(torch.randn(2, 2, 6, 6)).square().mean().backward()
    forget()


def test_what_is_written_in_place_is_no_difference(recordings: Recordings) -> None:
    sides = recordings(train, "written"), recordings(train, "")
    assert [msprobe.compare(*pair).verdict for pair in (sides, sides[::-1])] == ["same", "same"]


@pytest.mark.parametrize("way", ["over", "written over", "larger", "written larger"])
def test_a_fault_is_named_beside_it(recordings: Recordings, way: str) -> None:
    sides = recordings(train, way), recordings(train, "")
    (line,) = [n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# used")]
    for target, golden in (sides, sides[::-1]):
        found = msprobe.compare(target, golden).summary.first_divergence
        assert found is not None and f":{line} " in found.source, (found.source, found.reason)


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        (number(2.0), tensor(shape=()) | {"Max": 2.0, "Min": 2.0}, "same"),
        (number(3), tensor(shape=(1,), dtype="int64") | {"Max": 3, "Min": 3}, "same"),
        (number(2.5), tensor(shape=()) | {"Max": 2.0, "Min": 2.0}, "diverged"),
        (number(2.0), tensor(shape=(4,)) | {"Max": 2.0, "Min": 2.0}, "diverged"),
    ],
)
def test_a_number_is_that_of_a_tensor_of_one_element(tmp_path: Path, one: object, other: object, verdict: str) -> None:
    name = "Tensor.__mul__.0.forward"
    sides = [
        write(tmp_path / str(side), {name: call([tensor(), given], [tensor(2.0)])})
        for side, given in enumerate((one, other))
    ]
    assert {msprobe.compare(*pair).verdict for pair in (sides, sides[::-1])} == {verdict}


def freeze(folder: Path, when: str) -> None:
    """Record a pass back to the data, with frozen weights or not, and the pass that trains."""
    forget()
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)), torch.randn(3, 4, requires_grad=True)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model.requires_grad_(not when)
        (towards,) = torch.autograd.grad(model(x).sum(), x)
        model.requires_grad_(when != "always")
        model(x.detach() - towards).square().mean().backward()
    forget()


def test_weights_that_are_frozen_for_a_while_are_no_difference(recordings: Recordings) -> None:
    sides = recordings(freeze, "first"), recordings(freeze, "")
    assert [msprobe.compare(*pair).verdict for pair in (sides, sides[::-1])] == ["same", "same"]


def freeze_one(folder: Path, when: str) -> None:
    """Record a pass that trains all layers, or all but the first one."""
    forget()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    model[0].requires_grad_(not when)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(torch.randn(3, 4)).square().mean().backward()
    forget()


def test_a_layer_that_is_frozen_is_a_difference(recordings: Recordings) -> None:
    found = msprobe.compare(recordings(freeze_one, "frozen"), recordings(freeze_one, "")).summary.first_divergence
    assert found is not None and "requires_grad" in found.reason and found.module == "0.Linear"
