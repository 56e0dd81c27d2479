"""Two programs whose data come in other portions: what they read in the end decides, or the rows in their files."""

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
WINDOW = 3


class Mixer(nn.Module):
    """The mean of the last tokens, of a whole sequence at once or of one token with a buffer of those before it."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.linear, self.window = nn.Linear(8, 8), window
        self.last: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 1:
            self.last = [*self.last, x][-self.window :]
            return torch.tanh(self.linear(sum(self.last) / len(self.last)))
        number = torch.arange(x.shape[1])
        back = number[:, None] - number
        share = ((back >= 0) & (back < self.window)).float()
        return torch.tanh(self.linear(share @ x / share.sum(-1, keepdim=True)))


class Scorer(nn.Module):
    def __init__(self, window: int) -> None:
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(20, 8), Mixer(window), nn.Linear(8, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(self.embed(tokens)))


def score(folder: Path, whole: bool, read: bool, task: str = "statistics", window: int = WINDOW) -> None:
    """The log-probabilities of a sequence: of all positions, or token by token of all but the last one."""
    forget()
    torch.manual_seed(0)
    model = Scorer(window).eval()
    tokens = torch.tensor([3, 17, 5, 9, 12, 1])
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": task})
    with torch.no_grad(), debugger.collect(model=model):
        if whole:
            scores = list(torch.log_softmax(model(tokens[None]), -1)[0, :-1])
        else:
            scores = [torch.log_softmax(model(token), -1) for token in tokens[:-1]]
        if read:
            for row, token in zip(scores, tokens[1:], strict=True):
                row[token].item()
    forget()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("read", "task"), [(True, "statistics"), (False, "tensor")])
def test_tokens_one_by_one_are_a_part_of_the_whole(recordings: Recordings, read: bool, task: str, turned: bool) -> None:
    pair = [recordings(score, whole, read, task) for whole in (False, True)]
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == "same", result.summary.first_divergence


@pytest.mark.parametrize(("read", "task"), [(True, "statistics"), (False, "tensor"), (True, "tensor")])
def test_a_wrong_token_is_a_difference(recordings: Recordings, read: bool, task: str) -> None:
    target = recordings(score, False, read, task, WINDOW - 1)
    result = msprobe.compare(target, recordings(score, True, read, task))
    assert result.verdict == "diverged"
    first = result.summary.first_divergence
    if task == "tensor":  # without files no row of a whole is known
        assert first is not None and first.module == "mix.Mixer"


def test_statistics_alone_do_not_say_whether_tokens_are_a_part(recordings: Recordings) -> None:
    result = msprobe.compare(recordings(score, False, False), recordings(score, True, False))
    assert result.verdict == "diverged"


def read_scores(folder: Path, form: str) -> None:
    """Read the scores of two sequences of three tokens: by token, by sequence, or their sums turned round."""
    forget()
    torch.manual_seed(0)
    model = nn.Linear(8, 4).eval()
    x = torch.randn(2, 3, 8)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with torch.no_grad(), debugger.collect(model=model):
        if form == "by token":
            scores = [model(x[:, step])[:, 0] for step in range(3)]
            for both in scores:
                both.tolist()
            sum(scores).tolist()
        else:
            for sequence in x:
                total = sum(model(token)[0].item() for token in sequence)
                (torch.tensor(-total) if form == "by sequence" else model(sequence)[0, 0] + 1.0).item()
    forget()


@pytest.mark.parametrize(("form", "verdict"), [("by sequence", "same"), ("others", "diverged")])
def test_numbers_are_found_wherever_they_are_read(recordings: Recordings, form: str, verdict: str) -> None:
    result = msprobe.compare(recordings(read_scores, "by token"), recordings(read_scores, form))
    assert result.verdict == verdict, result.summary.first_divergence
