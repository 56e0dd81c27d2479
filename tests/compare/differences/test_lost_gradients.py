"""The gradient of a bias before a norm is zero by mathematics, also where several passes add up to it."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.torch


class Net(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.first, self.norm, self.last = nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "product" in self.way:
            hidden = torch.stack([x @ row for row in self.first.weight], 1) + self.first.bias
        else:
            hidden = self.first(x)
        return self.last(torch.relu(self.norm(hidden)))


def record(folder: Path, way: str) -> None:
    """Record two steps of two passes each, with an optimizer for the norm beside that of the layers."""
    forget()
    torch.manual_seed(0)
    net, passes = Net(way), torch.randn(2, 2, 9, 6)
    if "nothing" in way:
        net.first.bias.register_hook(torch.zeros_like)
    layers = torch.optim.Adam([*net.first.parameters(), *net.last.parameters()], lr=1e-2)
    norm = torch.optim.RMSprop(net.norm.parameters(), lr=1e-2)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for step in range(2):
        debugger.start(model=net)
        for x in passes[step]:
            loss = nn.functional.cross_entropy(net(x), torch.arange(9) % 3)
            (loss if "whole" in way else loss / 2).backward()
        if "clipped" in way:
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        for optimizer in (norm, layers) if "turned" in way else (layers, norm):
            optimizer.step()
            optimizer.zero_grad()
        debugger.stop()
        debugger.step()
    forget()


@pytest.mark.parametrize("way", ["product", "turned", "product turned"])
def test_another_rounding_of_nothing_is_no_difference(recordings: Recordings, way: str) -> None:
    one, two = recordings(record, way), recordings(record, "")
    for sides in ((one, two), (two, one)):
        assert msprobe.compare(*sides).verdict == "same"


@pytest.mark.parametrize("way", ["product", "turned", "product turned"])
def test_it_is_none_where_gradients_are_clipped(recordings: Recordings, way: str) -> None:
    assert msprobe.compare(recordings(record, f"clipped {way}"), recordings(record, "clipped")).verdict == "same"


@pytest.mark.parametrize("turned", [False, True])
def test_rounding_may_leave_nothing_in_one_run(recordings: Recordings, turned: bool) -> None:
    sides = recordings(record, "product nothing"), recordings(record, "")
    assert msprobe.compare(*(sides[::-1] if turned else sides)).verdict == "same"


@pytest.mark.parametrize("way", ["whole", "whole product", "whole turned"])
def test_a_wrong_gradient_is_one(recordings: Recordings, way: str) -> None:
    assert msprobe.compare(recordings(record, way), recordings(record, "")).verdict == "diverged"


def test_a_wrong_gradient_that_is_clipped_is_one(recordings: Recordings) -> None:
    wrong = recordings(record, "whole product clipped")
    assert msprobe.compare(wrong, recordings(record, "clipped")).verdict == "diverged"
