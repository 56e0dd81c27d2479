"""Correct trainings with tools of their own: optimizers, masks, rounding, losses and passes that look like faults."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import Options, debugger, options, recorded

STEPS = 4


def own_optimizers_in_the_pass(given: Options) -> None:
    """Each parameter has an optimizer that steps inside the backward pass, and frees its gradient."""
    model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 3))
    each = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}

    def step(parameter: Tensor) -> None:
        each[parameter].step()
        each[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            F.cross_entropy(model(torch.randn(6, 10)), torch.randint(0, 3, (6,))).backward()


class Masked(nn.Module):
    """Attention under a mask that the program makes."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -1e9)
        return x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def _texts(given: Options, hidden: Tensor, shift: int = 1) -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(20, 16), "layers": nn.ModuleList(Masked() for _ in range(2))})
    model["head"] = nn.Linear(16, 20)
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        words = torch.randint(0, 20, (3, 8))
        with recorded(probe, model):
            optimizer.zero_grad()
            x = model["embed"](words)
            for layer in model["layers"]:
                x = layer(x, hidden)
            F.cross_entropy(model["head"](x).flatten(0, 1), words.roll(-shift, 1).flatten()).backward()
            optimizer.step()


def reads_backwards(given: Options) -> None:
    """A model that guesses the word before hides the earlier places."""
    _texts(given, torch.ones(8, 8, dtype=torch.bool).tril(-1), -1)


def window_and_prefix(given: Options) -> None:
    """Each place sees a window behind it, and a prefix sees itself as a whole."""
    places = torch.arange(8)
    hidden = (places[None] > places[:, None]) | (places[:, None] - places[None] > 3)
    hidden[:3, :3] = False
    _texts(given, hidden)


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, weight: Tensor) -> Tensor:
        scale = weight.abs().max() / 3
        return (weight / scale).round() * scale

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


class Rounded(nn.Module):
    """A layer that computes with rounded weights and trains the exact ones."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / math.sqrt(inputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, Round.apply(self.weight))


def rounded_weights(given: Options) -> None:
    """Training for two bits: the weights that functions read are made by a function of one's own, and seldom change."""
    model = nn.Sequential(Rounded(8, 16), nn.ReLU(), Rounded(16, 3))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=1e-4), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(6, 8)), torch.randint(0, 3, (6,))).backward()
            optimizer.step()


def measured_by_another(given: Options) -> None:
    """A network beside the model measures likeness; nobody froze it, and nobody trains it."""
    measure = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 8))
    model = nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 12))
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(5, 12)
        with recorded(probe, model):
            optimizer.zero_grad()
            (measure(model(x)) - measure(x)).square().mean().backward()
            optimizer.step()


class Slots(nn.Module):
    """Slots compete for places: a softmax over slots, whose rows are then made to add up to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(6, 12))
        self.q, self.k, self.v = (nn.Linear(12, 12) for _ in range(3))
        self.update = nn.GRUCell(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        slots = self.start.expand(len(x), 6, 12)
        for _ in range(2):
            share = (self.q(slots) @ self.k(x).mT / math.sqrt(12)).softmax(1)
            share = share / share.sum(-1, keepdim=True)
            slots = self.update((share @ self.v(x)).flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
        return slots


def competing_slots(given: Options) -> None:
    """Square weights with a softmax along the other axis, which are normalised again."""
    model = nn.ModuleDict({"slots": Slots(), "back": nn.Linear(12, 12)})
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(4, 6, 12)
        with recorded(probe, model):
            optimizer.zero_grad()
            F.mse_loss(model["back"](model["slots"](x)).mean(1), x.mean(1)).backward()
            optimizer.step()


def half_precision_warm_up(given: Options) -> None:
    """Weights in bfloat16 whose first updates are lost in rounding, as the rate begins near 0."""
    model = nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1e-7 * (step + 1))
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            scores = model(torch.randn(6, 12).bfloat16()).float()
            F.cross_entropy(scores, torch.randint(0, 4, (6,))).backward()
            optimizer.step()
            schedule.step()


def labels_of_its_own(given: Options) -> None:
    """The model labels new data without gradients in training mode, then trains on them; norms are measured anew."""
    model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.1), debugger(given)
    for step in range(STEPS):
        x, new = torch.randn(8, 10), torch.randn(8, 10)
        with recorded(probe, model):
            with torch.no_grad():
                labels = model(new).argmax(-1)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), torch.randint(0, 3, (8,)))
            (loss + 0.1 * F.cross_entropy(model(new + 0.1), labels)).backward()
            optimizer.step()
            if step % 2:
                with torch.no_grad():
                    model(torch.randn(32, 10))


def generator_rests(given: Options) -> None:
    """The critic makes two steps, each on new samples that the resting generator draws in training mode."""
    maker = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))
    critic = nn.Sequential(nn.Linear(10, 16), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(16, 1))
    model = nn.ModuleDict({"maker": maker, "critic": critic})
    makes, judges = torch.optim.Adam(maker.parameters(), lr=1e-3), torch.optim.Adam(critic.parameters(), lr=1e-3)
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            makes.zero_grad()
            F.softplus(-critic(maker(torch.randn(8, 4)))).mean().backward()
            makes.step()
            for _ in range(2):
                with torch.no_grad():
                    fake = maker(torch.randn(8, 4))
                judges.zero_grad()
                (F.softplus(critic(fake)).mean() + F.softplus(-critic(torch.randn(8, 10))).mean()).backward()
                judges.step()


class Mixture(nn.Module):
    """Density of a mixture with learned weights, kept in one parameter and read in pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Parameter(torch.randn(5, 9) * 0.5)

    def forward(self, x: Tensor) -> Tensor:
        share, mean, spread = self.all[:, 0], self.all[:, 1:5], self.all[:, 5:].exp()
        each = -0.5 * (((x[:, None] - mean) / spread) ** 2).sum(-1) - spread.log().sum(-1)
        constant = torch.tensor(0.5 * 4 * math.log(2 * math.pi))
        return -(torch.logsumexp(share.log_softmax(0) + each, -1)).mean() + constant


def density(given: Options) -> None:
    """A loss with a constant term; parameters that no function reads as a whole."""
    model = Mixture()
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            model(torch.randn(30, 4)).backward()
            optimizer.step()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        own_optimizers_in_the_pass, reads_backwards, window_and_prefix, rounded_weights, measured_by_another,
        competing_slots, half_precision_warm_up, labels_of_its_own, generator_rests, density,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
