"""A bias whose gradient is nothing but rounding, moved by the optimizer in one program and by hand in the other."""

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
    """The second norm takes away what the bias of the first one adds."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.is_folded = "folded" in way
        self.up, self.first = nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16)
        self.mid, self.second, self.down = nn.Linear(16, 24), nn.BatchNorm1d(24), nn.Linear(24, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = torch.einsum("oi,bin->bon", self.up.weight[:, :, 0], x) if self.is_folded else None
        h = self.up(x) if product is None else product + self.up.bias[:, None]
        return self.down(torch.tanh(self.second(self.mid(self.first(h).amax(2)))))


@torch.no_grad()
def update(net: Net, velocity: list[torch.Tensor]) -> None:
    for parameter, speed in zip(net.parameters(), velocity, strict=True):
        assert parameter.grad is not None
        speed.mul_(0.9).add_(parameter.grad)
        parameter -= 0.1 * (parameter.grad + 0.9 * speed)


def train(folder: Path, way: str) -> None:
    """Record three steps, with an update ``by hand`` or not; ``twice`` is a fault: the update of the last layer."""
    forget()
    torch.manual_seed(0)
    net = Net(way)
    velocity = [torch.zeros_like(parameter) for parameter in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    data = torch.randn(3, 12, 3, 40)
    for x in data:
        debugger.start(net)
        net.zero_grad()
        net(x).square().mean().backward()
        if "by hand" in way:
            update(net, velocity)
        else:
            optimizer.step()
        if "twice" in way:
            with torch.no_grad():
                net.down.weight *= 1.01
        debugger.stop()
        debugger.step()
    forget()


def test_what_rounding_moves_is_no_difference(recordings: Recordings) -> None:
    sides = recordings(train, "by hand folded"), recordings(train, "")
    assert [msprobe.compare(*pair).verdict for pair in (sides, sides[::-1])] == ["same", "same"]


def test_a_fault_beside_it_is_one(recordings: Recordings) -> None:
    result = msprobe.compare(recordings(train, "by hand folded twice"), recordings(train, ""))
    assert result.verdict == "diverged"
