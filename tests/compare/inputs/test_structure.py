"""Dumps of task ``structure`` have no values: a call of one side alone is a divergence, and equal calls are no pass."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.cli.main import run
from msprobe.pytorch import PrecisionDebugger
from msprobe.report.summary_text import summary_text
from tests.fresh_debugger import forget
from tests.recordings import Recordings

pytestmark = pytest.mark.torch


class Net(torch.nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.up, self.down, self.way = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4), way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(x)
        if self.way == "more":
            hidden = torch.relu(hidden)  # more
        if self.way == "lost":
            hidden = hidden.detach()
        if self.way == "half":
            return self.down(hidden * 0.5)  # by product
        return self.down(hidden / 2)  # by quotient


def record(folder: Path, way: str, level: str, steps: int = 1) -> None:
    """One or two steps; only the last one is made the other ``way``."""
    forget()
    torch.manual_seed(0)
    model = Net("")
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "structure"})
    for step in range(steps):
        model.way = way if step == steps - 1 else ""
        debugger.start(model)
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        debugger.stop()
        debugger.step()
    forget()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("way", "name", "line"),
    [
        ("more", "Torch.relu.0.forward", "hidden = torch.relu(hidden) # more"),
        ("lost", "Tensor.__truediv__.0.backward", "return self.down(hidden / 2) # by quotient"),
    ],
)
def test_a_call_of_one_side_is_a_divergence(
    recordings: Recordings, tmp_path: Path, way: str, name: str, line: str, turned: bool
) -> None:
    pair = [recordings(record, way, "mix"), recordings(record, "", "mix")]
    target, golden = reversed(pair) if turned else pair
    result = msprobe.compare(target, golden)
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None
    assert (found.target, found.golden) == ((name, None) if (way == "more") is not turned else (None, name))
    assert found.source.endswith(line) and "Rows: " not in summary_text(result.summary)
    assert diff_analyze(target, golden, tmp_path).verdict == "diverged"


def test_each_side_has_a_call_that_the_other_one_lacks(recordings: Recordings) -> None:
    result = msprobe.compare(recordings(record, "half", "mix"), recordings(record, "", "mix"))
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None
    assert found.name == "Tensor.__truediv__.0.forward of the golden run alone"
    assert found.source.endswith("# by quotient") and "Tensor.__mul__.0.forward there" in found.reason


def test_equal_calls_are_no_pass(recordings: Recordings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = recordings(record, "", "mix")
    record(tmp_path / "again", "", "mix")
    assert run(["compare", "-tp", str(tmp_path / "again"), "-gp", str(golden), "-o", str(tmp_path / "o")]) == 3
    assert "both runs make the same calls" in capsys.readouterr().err


def test_modules_alone(recordings: Recordings) -> None:
    """At L0 a function more is not recorded, a gradient less is."""
    golden = recordings(record, "", "L0")
    assert msprobe.compare(recordings(record, "more", "L0"), golden).verdict == "not_comparable"
    assert msprobe.compare(recordings(record, "lost", "L0"), golden).verdict == "diverged"


def test_a_later_step(recordings: Recordings) -> None:
    result = msprobe.compare(recordings(record, "more", "mix", 2), recordings(record, "", "mix", 2))
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None and found.step == 1 and "# more" in found.source
