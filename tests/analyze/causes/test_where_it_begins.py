"""Two programs of other code: the call in which a fault begins, inside of modules."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


class LowRank(nn.Module):
    """A weight with an update of low rank beside it: layers of the framework, or products of its own."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.base, self.down, self.up = nn.Linear(8, 8, False), nn.Linear(8, 2, False), nn.Linear(2, 8, False)
        self.rest, self.form = nn.Identity(), form

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.form:
            return self.base(x) + self.up(self.down(self.rest(x))) * 2.0
        code = x @ self.down.weight.t()
        update = code @ self.up.weight.t() * (2.0 if self.form == "right" else 2.5)  # the fault
        return F.linear(x, self.base.weight) + update


class Own(LowRank):
    """The class of the other program."""


class Recurrent(nn.Module):
    """A recurrent layer, or a cell in a loop whose states are put together."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.layer = form, nn.RNN(8, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.form:
            return self.layer(x)[0]
        weights = [self.layer.get_parameter(f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        state, states = x.new_zeros(len(x), 8), []
        for step in x.unbind(1):
            state = torch.tanh(step @ weights[0].t() + weights[2] + state @ weights[1].t() + weights[3])
            if self.form == "wrong":
                state = state * 1.1  # the fault
            states.append(state)
        return torch.stack(states, 1)


class Net(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.first, self.part, self.last = nn.Linear(8, 8), part, nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.part(self.first(x))
        return self.last(torch.sigmoid(wide[..., :4].repeat_interleave(2, -1)) * wide)


KINDS = {"low rank": (LowRank, Own), "recurrent": (Recurrent, Recurrent)}


def record(folder: Path, kind: str, form: str) -> None:
    forget()
    torch.manual_seed(0)
    model, x = Net(KINDS[kind][bool(form)](form)), torch.randn(3, 5, 8)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(x).square().mean().backward()
    forget()


def compared(recordings: Recordings, kind: str, form: str) -> CompareSummary:
    return msprobe.compare(recordings(record, kind, form), recordings(record, kind, "")).summary


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_in_other_code_is_the_same(recordings: Recordings, kind: str) -> None:
    summary = compared(recordings, kind, "right")
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.parametrize("kind", KINDS)
def test_the_module_is_named_and_the_line_is_among_those_that_may_be_wrong(recordings: Recordings, kind: str) -> None:
    first = compared(recordings, kind, "wrong").first_divergence
    assert first is not None and (first.module or "").startswith("part.")
    assert any(line.endswith("# the fault") for line in (first.source, *first.stretch)), first.stretch
