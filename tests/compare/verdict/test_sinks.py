"""Programs in other words: the losses of a step, the gradients of all parameters and the results of models decide."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch

KEPT = torch.tensor([True, False, True, True])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.last(torch.tanh(self.first(x)))


class Attending(nn.Module):
    """Gets what it attends to projected, or projects it itself."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.state = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, state: Any, states: Any, *rest: Any) -> Any:
        projected = rest[0] if len(rest) == 2 else self.source(states)
        scores = (projected * self.state(state)[:, None]).sum(dim=-1) + rest[-1]
        return (scores.softmax(dim=-1)[..., None] * states).sum(dim=1)


class Looping(nn.Module):
    def __init__(self, *, ahead: bool, factor: float = 1.0) -> None:
        super().__init__()
        self.ahead, self.factor = ahead, factor
        self.embed, self.attend, self.last = nn.Linear(6, 12), Attending(), nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        states = self.embed(x).view(4, 2, 6)
        state, bias = states[:, 0], torch.zeros(4, 2)
        projected = self.attend.source(states) * self.factor if self.ahead else None
        for _ in range(2):
            more = (projected,) if self.ahead else ()
            state = self.attend(state, states, *more, bias)
        return self.last(state)


def chosen(model: Any, x: Any, labels: Any, kept: Any = KEPT) -> None:
    F.cross_entropy(model(x)[kept], labels[kept]).backward()


def ignored(model: Any, x: Any, labels: Any) -> None:
    F.cross_entropy(model(x), labels.masked_fill(~KEPT, -100), ignore_index=-100).backward()


def masked(model: Any, x: Any, labels: Any) -> None:
    ((F.cross_entropy(model(x), labels, reduction="none") * KEPT).sum() / KEPT.sum()).backward()


def of_rows(model: Any, x: Any, labels: Any, kept: Any = KEPT) -> None:
    terms = (model(x) - labels[:, None]).square()
    ((terms.mean(dim=-1) * kept).sum() / kept.sum()).backward()


def of_chosen_rows(model: Any, x: Any, labels: Any) -> None:
    terms = (model(x) - labels[:, None]).square()
    terms[KEPT].mean().backward()


def of_other_rows(model: Any, x: Any, labels: Any) -> None:
    of_rows(model, x, labels, torch.tensor([True, False, False, True]))


def fewer(model: Any, x: Any, labels: Any) -> None:
    chosen(model, x, labels, torch.tensor([True, False, False, True]))


def each(model: Any, x: Any, labels: Any, share: float = 4.0) -> None:
    for half, factor in ((slice(2), 4.0), (slice(2, 4), share)):
        (F.cross_entropy(model(x[half]), labels[half]) * factor).backward()


def together(model: Any, x: Any, labels: Any) -> None:
    total: Any = 0.0
    for half in (slice(2), slice(2, 4)):
        total = total + F.cross_entropy(model(x[half]), labels[half])
    (total * 4.0).backward()


def stacked(model: Any, x: Any, labels: Any, factors: tuple[float, float] = (4.0, 4.0)) -> None:
    """What ``stack`` gets leaves no record."""
    halves = zip((slice(2), slice(2, 4)), factors, strict=True)
    torch.stack([F.cross_entropy(model(x[half]), labels[half]) * factor for half, factor in halves]).sum().backward()


def stacked_wrong(model: Any, x: Any, labels: Any) -> None:
    stacked(model, x, labels, (4.0, 4.1))


def unevenly(model: Any, x: Any, labels: Any) -> None:
    each(model, x, labels, 4.1)


def summed(model: Any, x: Any, labels: Any) -> None:
    logits = model(x)
    (F.cross_entropy(logits, labels) + 0.1 * logits.square().mean()).backward()


def one_by_one(model: Any, x: Any, labels: Any, factor: float = 0.1) -> None:
    logits = model(x)
    F.cross_entropy(logits, labels).backward(retain_graph=True)
    (factor * logits.square().mean()).backward()


def one_by_one_wrong(model: Any, x: Any, labels: Any) -> None:
    one_by_one(model, x, labels, 0.11)


def turned(model: Any, x: Any, labels: Any, factor: float = 1.0) -> None:
    """A minus in front leaves no record."""
    (-(model(x)[:, 0] * factor).mean()).backward()


def turned_inside(model: Any, x: Any, labels: Any) -> None:
    (-model(x)[:, 0]).mean().backward()


def turned_back(model: Any, x: Any, labels: Any) -> None:
    model(x)[:, 0].mean().backward()


class Attention(nn.Module):
    """One projection for all, or three; a mask of truth values, of numbers, or none; weights returned or not."""

    def __init__(self, form: str, scale: float = 0.5, *, cut: bool = False) -> None:
        super().__init__()
        self.form, self.scale, self.cut = form, scale, cut
        torch.manual_seed(3)
        weight, last = torch.randn(18, 6) / 2, torch.randn(6, 6)
        parts = {"all": weight} if form == "one" else dict(zip("qkv", weight.chunk(3), strict=True))
        self.layers = nn.ModuleDict({name: nn.Linear(6, len(one), bias=False) for name, one in parts.items()})
        self.last = nn.Linear(6, 6, bias=False)
        with torch.no_grad():
            self.last.weight.copy_(last)
            for name, one in parts.items():
                self.layers[name].weight.copy_(one)

    def forward(self, x: Any, mask: Any = None) -> Any:
        layers = list(self.layers.values())
        q, k, v = layers[0](x).chunk(3, -1) if self.form == "one" else (layer(x) for layer in layers)
        scores = (q * self.scale) @ k.transpose(-1, -2)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9) if mask.dtype is torch.bool else scores + mask
        weights = scores.softmax(-1)
        mixed = weights @ (v.detach() if self.cut else v)
        return (self.last(mixed), weights) if self.form == "one" else (self.last(mixed),)


class Around(nn.Module):
    def __init__(self, form: str, **changes: Any) -> None:
        super().__init__()
        self.form, self.inner = form, Attention(form, **changes)

    def forward(self, x: Any) -> Any:
        allowed = torch.ones(len(x), len(x), dtype=torch.bool)
        mask = {"one": allowed, "numbers": torch.zeros(len(x), len(x)), "none": None}[self.form]
        return self.inner(x, mask)[0]


def plain(model: Any, x: Any, labels: Any) -> None:
    F.cross_entropy(model(x), labels).backward()


Learn = Callable[[Any, Any, Any], None]
RUNS: dict[str, tuple[Callable[[], Any], Learn]] = {
    **{
        f.__name__: (Model, f)
        for f in (chosen, ignored, masked, fewer, each, together, stacked, stacked_wrong, unevenly)
    },
    **{f.__name__: (Model, f) for f in (summed, one_by_one, one_by_one_wrong, of_rows, of_chosen_rows, of_other_rows)},
    **{f.__name__: (Model, f) for f in (turned, turned_inside, turned_back)},
    **{f"attention_{form}": (partial(Around, form), plain) for form in ("one", "numbers", "none")},
    "attention_scaled": (partial(Around, "none", scale=0.52), plain),
    "attention_cut": (partial(Around, "none", cut=True), plain),
    "inside": (lambda: Looping(ahead=False), plain),
    "ahead": (lambda: Looping(ahead=True), plain),
    "ahead_wrong": (lambda: Looping(ahead=True, factor=1.01), plain),
}
SAME = [
    ("chosen", "ignored"),
    ("chosen", "masked"),
    ("of_chosen_rows", "of_rows"),
    ("together", "each"),
    ("stacked", "each"),
    ("stacked", "together"),
    ("one_by_one", "summed"),
    ("ahead", "inside"),
    ("turned_inside", "turned"),
    ("attention_one", "attention_none"),
    ("attention_numbers", "attention_none"),
    ("attention_one", "attention_numbers"),
]
WRONG = [
    ("fewer", "ignored"),
    ("fewer", "masked"),
    ("of_chosen_rows", "of_other_rows"),
    ("together", "unevenly"),
    ("stacked_wrong", "each"),
    ("stacked_wrong", "together"),
    ("one_by_one_wrong", "summed"),
    ("ahead_wrong", "inside"),
    ("turned_back", "turned"),
    ("attention_scaled", "attention_one"),
    ("attention_cut", "attention_none"),
]


def record(folder: Path, name: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    make, learn = RUNS[name]
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    for _ in range(2):
        debugger.start(model)
        optimizer.zero_grad()
        learn(model, torch.randn(4, 6), torch.randint(5, (4,)))
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


def verdict(recordings: Recordings, pair: tuple[str, str], *, turned: bool) -> CompareSummary:
    target, golden = reversed(pair) if turned else pair
    return msprobe.compare(recordings(record, target), recordings(record, golden)).summary


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("pair", SAME, ids="-".join)
def test_another_formula_of_the_losses_is_the_same(pair: tuple[str, str], turned: bool, recordings: Recordings) -> None:
    summary = verdict(recordings, pair, turned=turned)
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("pair", WRONG, ids="-".join)
def test_a_fault_in_another_formula_is_named(pair: tuple[str, str], turned: bool, recordings: Recordings) -> None:
    found = verdict(recordings, pair, turned=turned).first_divergence
    assert found is not None and found.step == 0
    assert Path(__file__).name in found.source, found
