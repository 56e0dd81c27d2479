"""Parameters that are frozen when a step begins and trained later in it, as the critic of an adversarial network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.core.store.reader import find_dumps, load_dump  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.torch


def train(folder: Path, frozen: str) -> None:
    """Train the critic, which is frozen when the step begins, when it ends, or not at all."""
    forget()
    torch.manual_seed(0)
    maker, critic = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    critic.requires_grad_(frozen != "first")
    with debugger.collect(model=[maker, critic]):
        critic(maker(torch.randn(2, 3))).sum().backward()
        critic.requires_grad_(frozen != "last")
        critic.zero_grad()
        critic(maker(torch.randn(2, 3))).square().sum().backward()
    assert all(parameter.requires_grad == (frozen != "last") for parameter in critic.parameters())
    assert all((parameter.grad is None) == (frozen == "last") for parameter in critic.parameters())
    forget()


@pytest.mark.parametrize(("frozen", "count"), [("first", 1), ("last", 1), ("", 2)])
def test_each_gradient_is_recorded(recordings: Recordings, frozen: str, count: int) -> None:
    (place,) = find_dumps(recordings(train, frozen))
    data = load_dump(place).data
    critic = [name for name in data if "parameters_grad" in name and "1.0.Linear" in name]
    assert len(critic) == count, [name for name in data if "parameters_grad" in name]
