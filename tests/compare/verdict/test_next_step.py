"""Parameters that the other run has in another form: what a step makes of them is shown by the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.visualize.job import Request, visualize
from tests.fresh_debugger import forget
from tests.recordings import Recordings
from tests.visualize.databases import read

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch
FACTOR = 0.25


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.first(x)))


class Multiple(nn.Module):
    """The same; what it holds of each parameter is a multiple, so that gradients are smaller."""

    def __init__(self, other: Plain) -> None:
        super().__init__()
        self.large = nn.ParameterList(one.detach() / FACTOR for one in other.parameters())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias, head, shift = (one * FACTOR for one in self.large)
        return torch.tanh(x @ weight.T + bias) @ head.T + shift


def train(folder: Path, multiple: bool, steps: int = 3, rate: float = 0.1) -> None:
    forget()
    torch.manual_seed(0)
    model: nn.Module = Plain()
    if multiple:
        model = Multiple(model)
        rate /= FACTOR**2
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for x in torch.randn(steps, 4, 6):
        debugger.start(model)
        optimizer.zero_grad()
        F.cross_entropy(model(x), torch.tensor([0, 1, 2, 1])).backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_the_next_steps_show_gradients_of_other_parameters(recordings: Recordings, turned: bool) -> None:
    pair = [recordings(train, multiple) for multiple in (True, False)]
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == "same", result.summary.first_divergence


def test_another_learning_rate_is_a_difference(recordings: Recordings) -> None:
    result = msprobe.compare(recordings(train, True, 3, 0.11), recordings(train, False))
    assert result.verdict == "diverged"


def test_nothing_shows_what_the_only_step_leaves(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(train, True, 1), recordings(train, False, 1)).verdict == "diverged"


def test_every_tool_gives_the_same_verdict(recordings: Recordings, tmp_path: Path) -> None:
    pair = recordings(train, True), recordings(train, False)
    assert diff_analyze(*pair, tmp_path).document == {}
    assert not any(one.row_levels.diverging.any() for one in msprobe.compare(*pair).comparisons())
    tables = read(visualize(Request(pair[0], tmp_path, pair[1])))
    assert [summary["verdict"] for summary in tables.meta["summary"]] == ["same"] * 3
