"""A program that keeps its parameters in another way is the same where all that leaves the step is."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch

ORDER = [2, 0, 3, 1]
"""In which order the other program has the rows of a head."""


class Norm(nn.Module):
    """A norm that multiplies by its gain, or by one more than it."""

    def __init__(self, more: float) -> None:
        super().__init__()
        self.gain, self.more = nn.Parameter(torch.linspace(0.5, 1.5, 8) - more), more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (8,)) * (self.gain + self.more)


class Net(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value, self.unused = (nn.Linear(8, 8, False) for _ in range(4))
        self.norm = Norm(0.0 if form in ("", "reordered", "wrong order") else 1.0)
        order = torch.tensor(ORDER)
        for name in {"reordered": ("query", "key"), "wrong order": ("query",)}.get(form, ()):
            weight = self.get_parameter(f"{name}.weight")
            weight.data = weight.data.unflatten(0, (2, 4))[:, order].flatten(0, 1)
        if form == "wrong gain":
            self.norm.more = 1.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        query, key, value = (
            layer(x).unflatten(-1, (2, 4)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


def record(folder: Path, form: str) -> None:
    forget()
    model = Net(form)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, foreach=False)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for step in range(2):
        x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(step))
        with debugger.collect(model=model):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    forget()


@pytest.mark.parametrize("form", ["reordered", "one more"])
def test_another_way_to_keep_parameters_is_the_same(recordings: Recordings, form: str) -> None:
    summary = msprobe.compare(recordings(record, form), recordings(record, "")).summary
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.parametrize("form", ["wrong order", "wrong gain"])
def test_a_wrong_way_is_a_difference(recordings: Recordings, form: str) -> None:
    assert msprobe.compare(recordings(record, form), recordings(record, "")).verdict == "diverged"
