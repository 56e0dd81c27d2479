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


def decode(folder: Path, form: str) -> None:
    """Continue a text: each step over all tokens so far, or two tokens a step behind a guess; ``cold`` halves the
    scores."""
    forget()
    torch.manual_seed(0)
    model = Scorer(WINDOW).eval()
    text = torch.tensor([[3, 17, 5]])
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with torch.no_grad(), debugger.collect(model=model):
        made = 0
        while made < 6:
            if form != "guess":
                score, token = torch.log_softmax(model(text)[:, -1] * (0.5 if form == "cold" else 1.0), -1).max(-1)
                score.item()
                text, made = torch.cat([text, token[:, None]], 1), made + 1
                continue
            guess = model(text)[:, -1].argmax(-1, keepdim=True)
            scores = torch.log_softmax(model(torch.cat([text, guess], 1))[0, -2:], -1)
            score, tokens = scores.max(-1)
            score.sum().item()
            text, made = torch.cat([text, tokens[None]], 1), made + 2
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_a_module_called_for_other_portions_is_judged_by_what_is_read(recordings: Recordings, turned: bool) -> None:
    pair = recordings(decode, "guess"), recordings(decode, "one by one")
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == "same", result.summary.first_divergence


def test_other_sums_are_a_difference(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(decode, "guess"), recordings(decode, "cold")).verdict == "diverged"


def rank(folder: Path, whole: bool, share: float = 1.0) -> None:
    """Read the two best scores of each row, computed beside a row of padding, or all scores of all rows at once."""
    forget()
    torch.manual_seed(0)
    model, x = nn.Linear(8, 40).eval(), torch.randn(5, 8)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with torch.no_grad(), debugger.collect(model=model):
        if whole:
            (model(x) * share).tolist()
        else:
            for row in x:
                model(torch.stack([row, torch.ones(8)]))[0].topk(2).values.tolist()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize(("share", "verdict"), [(1.0, "same"), (1.01, "diverged")])
def test_few_numbers_are_among_many_by_no_chance(
    recordings: Recordings, share: float, verdict: str, turned: bool
) -> None:
    pair = recordings(rank, True, share), recordings(rank, False)
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == verdict, result.summary.first_divergence
