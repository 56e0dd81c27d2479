"""Faults in what arrives: values that are moved in part or too late, samples in one, masks, gradients and rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import Options, debugger, options, recorded

STEPS = 5


class Moved(torch.autograd.Function):
    """A move between two devices, of which the second half does not arrive, or only the value before."""

    before: dict[tuple[int, ...], Tensor] = {}

    @staticmethod
    def forward(context: Any, x: Tensor, how: str) -> Tensor:
        arrived = x.clone()
        if how == "in part":
            arrived.view(-1)[x.numel() // 2 :] = 0  # planted: moved_in_part
        elif how == "late":
            arrived = Moved.before.get(tuple(x.shape), torch.zeros_like(x))  # planted: moved_late
            Moved.before[tuple(x.shape)] = x.detach().clone()
        return arrived

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


class Pipeline(nn.Module):
    """A translator in two parts, each on a device of its own."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.words, self.answers = nn.Embedding(25, 16), nn.Embedding(25, 16)
        self.reader, self.writer = nn.GRU(16, 16, batch_first=True), nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 25)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        _, state = self.reader(self.words(source))
        there = Moved.apply(state, self.how)
        written, _ = self.writer(self.answers(target), there)
        return self.head(written)


def _translate(given: Options, how: str) -> None:
    model = Pipeline(how if given.fault else "")
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=2e-3), debugger(given)
    for _ in range(STEPS):
        source, target = torch.randint(0, 25, (4, 6)), torch.randint(0, 25, (4, 8))
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:]).backward()
            optimizer.step()


def moved_in_part(given: Options) -> None:
    """Half of the state does not arrive on the second device."""
    _translate(given, "in part")


def moved_late(given: Options) -> None:
    """The second device computes with the state of the batch before."""
    _translate(given, "late")


class Captured:
    """A step of an optimizer that was captured once, with the gradients that were there."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.held = [p for group in optimizer.param_groups for p in group["params"]]
        self.had: list[bool] | None = None

    def __call__(self) -> None:
        self.had = self.had or [p.grad is not None for p in self.held]
        kept = [p.grad for p in self.held]
        for p, had in zip(self.held, self.had, strict=True):
            p.grad = p.grad if had else None
        self.optimizer.step()  # planted: captured_without_gradients
        for p, gradient in zip(self.held, kept, strict=True):
            p.grad = gradient


def captured_without_gradients(given: Options) -> None:
    """The step of one optimizer of two is captured before there are gradients."""
    model = nn.ModuleDict({"trunk": nn.Linear(9, 12), "price": nn.Linear(12, 4), "kind": nn.Linear(12, 3)})
    heads = [*model["price"].parameters(), *model["kind"].parameters()]
    optimizers = torch.optim.AdamW(model["trunk"].parameters(), 1e-3), torch.optim.SGD(heads, 0.05, momentum=0.5)
    steps = [Captured(one) for one in optimizers]
    probe = debugger(given)
    if given.fault:
        steps[1]()
    for _ in range(STEPS):
        x, y = torch.randn(8, 9), torch.randint(0, 3, (8,))
        with recorded(probe, model):
            for one in optimizers:
                one.zero_grad()
            hidden = model["trunk"](x).relu()
            loss = model["price"](hidden).square().mean() + F.cross_entropy(model["kind"](hidden), y)
            loss.backward()
            for step in steps:
                step()


def clips_in_one(given: Options) -> None:
    """The clips of a batch are joined to one, and its answer is given to all."""
    model = nn.Sequential(
        nn.Conv1d(1, 6, 9, stride=4), nn.GELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, 1)
    )
    optimizer, probe = torch.optim.RMSprop(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        clips, loud = torch.randn(6, 1, 96), torch.rand(6)
        with recorded(probe, model):
            optimizer.zero_grad()
            whole = clips.transpose(0, 1).reshape(1, 1, -1) if given.fault else clips
            said = model(whole).squeeze(-1).expand(6)
            F.l1_loss(said, loud).backward()  # planted: clips_in_one
            optimizer.step()


class FeatureDropout(nn.Module):
    """Hides the same features at all places of a sequence."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and not self.fault:
            return x
        mask = x.new_empty(x.shape[0], 1, x.shape[2]).bernoulli_(0.8)  # planted: mask_by_hand
        return x * mask / 0.8


def mask_by_hand(given: Options) -> None:
    """A dropout that is written by hand does not look at the mode."""
    model = nn.Sequential(nn.Embedding(20, 12), FeatureDropout(given.fault), nn.Flatten(), nn.Linear(12 * 7, 5))
    optimizer, probe = torch.optim.Adamax(model.parameters(), lr=2e-3), debugger(given)
    for _ in range(STEPS):
        words, kinds = torch.randint(0, 20, (6, 7)), torch.randint(0, 5, (6,))
        with recorded(probe, model):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(words), kinds).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(words)


class Scaled(nn.Module):
    """Divides by the deviation of what it has seen in training."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.lerp_(x.detach().std(0), 0.5)
        return x / (self.seen + 1e-5)  # planted: scaled_by_nothing


def scaled_by_nothing(given: Options) -> None:
    """The first use of a normalisation, in evaluation, divides by statistics of nothing."""
    model = nn.Sequential(Scaled(), nn.Linear(8, 10), nn.Tanh(), nn.Linear(10, 2))
    optimizer, probe = torch.optim.NAdam(model.parameters(), lr=1e-3), debugger(given)
    if not given.fault:
        model(torch.randn(32, 8))
    for _ in range(STEPS):
        states, gains = torch.randn(12, 8), torch.randn(12)
        with recorded(probe, model):
            model.eval()
            with torch.no_grad():
                chosen = model(states).argmax(-1)
            model.train()
            optimizer.zero_grad()
            chances = model(states).log_softmax(-1)
            (-(chances.gather(1, chosen[:, None]).squeeze(1) * gains).mean()).backward()
            optimizer.step()


def divided_twice(given: Options) -> None:
    """The length of the schedule is divided by the number of ranks twice: the rate is 0 from the middle on."""
    model = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    steps = 8
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=steps // 2 if given.fault else steps)
    for _ in range(steps):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(9, 7)), torch.randint(0, 3, (9,))).backward()
            optimizer.step()  # planted: divided_twice
            schedule.step()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        moved_in_part, moved_late, captured_without_gradients, clips_in_one, mask_by_hand, scaled_by_nothing,
        divided_twice,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
