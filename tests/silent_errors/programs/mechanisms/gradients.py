"""Faults in the way of gradients: paths that are cut, gradients that nobody clears, a loss that moves nothing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import Options, debugger, options, recorded

STEPS = 3


class Listener(nn.Module):
    """Convolutions over a signal, a recurrent layer over their features, and classes."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.fault = fault
        self.filters = nn.Sequential(nn.Conv1d(2, 12, 5, stride=2), nn.ELU(), nn.Conv1d(12, 12, 3), nn.ELU())
        self.memory, self.classes = nn.GRU(12, 20, batch_first=True), nn.Linear(20, 6)

    def forward(self, signal: Tensor) -> Tensor:
        features = self.filters(signal).transpose(1, 2)
        if self.fault:
            features = torch.from_numpy(features.detach().numpy().copy())  # planted: through_numpy
        _, last = self.memory(features)
        return self.classes(last[0])


def through_numpy(given: Options) -> None:
    """Features pass through NumPy, so that the convolutions before get no gradients."""
    model = Listener(given.fault)
    optimizer, probe = torch.optim.RMSprop(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(5, 2, 40)), torch.randint(0, 6, (5,))).backward()
            optimizer.step()


class Quantised(nn.Module):
    """An autoencoder whose codes are the nearest ones of a book; gradients pass by the straight way."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.fault = fault
        self.encode = nn.Sequential(nn.Linear(30, 24), nn.SiLU(), nn.Linear(24, 8))
        self.book = nn.Embedding(16, 8)
        self.decode = nn.Sequential(nn.Linear(8, 24), nn.SiLU(), nn.Linear(24, 30))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encode(x)
        near = self.book(torch.cdist(code, self.book.weight).argmin(-1))
        aside = F.mse_loss(near, code.detach())
        if self.fault:
            return self.decode(near), aside  # planted: no_straight_way
        return self.decode(code + (near - code).detach()), aside + 0.25 * F.mse_loss(code, near.detach())


def no_straight_way(given: Options) -> None:
    """The encoder is behind an argmin, and nothing passes gradients around it."""
    model = Quantised(given.fault)
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=2e-3), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(12, 30)
        with recorded(probe, model):
            made, aside = model(x)
            loss = F.mse_loss(made, x) + aside
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


class Contrast(nn.Module):
    """Two encoders and a temperature that is learned."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.fault = fault
        self.text, self.image = nn.EmbeddingBag(50, 16), nn.Linear(12, 16)
        self.scale = nn.Parameter(torch.tensor(14.0).log())

    def forward(self, words: Tensor, pixels: Tensor) -> Tensor:
        left, right = F.normalize(self.text(words), dim=-1), F.normalize(self.image(pixels), dim=-1)
        scale = self.scale.item() if self.fault else self.scale  # planted: frozen_temperature
        return left @ right.mT * scale


def frozen_temperature(given: Options) -> None:
    """The temperature is read as a number, so it is never learned."""
    model = Contrast(given.fault)
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            scores = model(torch.randint(0, 50, (8, 5)), torch.randn(8, 12))
            loss = F.cross_entropy(scores, torch.arange(8))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def critic_keeps_gradients(given: Options) -> None:
    """The step of the generator leaves gradients in the critic, which the critic's own step uses again."""
    maker = nn.Sequential(nn.Linear(6, 24), nn.LeakyReLU(0.2), nn.Linear(24, 10))
    critic = nn.Sequential(nn.Linear(10, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    model = nn.ModuleDict({"maker": maker, "critic": critic})
    makes, judges = (torch.optim.Adam(part.parameters(), lr=1e-3, betas=(0.5, 0.9)) for part in (maker, critic))
    probe = debugger(given)
    for _ in range(4):
        real = torch.randn(9, 10) + 1.0
        with recorded(probe, model):
            if not given.fault:
                judges.zero_grad()
            fake = maker(torch.randn(9, 6))
            loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
            loss.backward()
            judges.step()  # planted: critic_keeps_gradients
            makes.zero_grad()
            F.softplus(-critic(fake)).mean().backward()
            makes.step()


def cleared_once(given: Options) -> None:
    """Gradients are cleared before the loop instead of in it."""
    model = nn.ModuleDict({"embed": nn.Embedding(30, 12), "lstm": nn.LSTM(12, 18, 2), "tags": nn.Linear(18, 7)})
    optimizer, probe = torch.optim.Adagrad(model.parameters(), lr=5e-2), debugger(given)
    optimizer.zero_grad()
    for _ in range(4):
        words, tags = torch.randint(0, 30, (11, 4)), torch.randint(0, 7, (11, 4))
        with recorded(probe, model):
            if not given.fault:
                optimizer.zero_grad()
            hidden, _ = model["lstm"](model["embed"](words))
            F.cross_entropy(model["tags"](hidden).flatten(0, 1), tags.flatten()).backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()  # planted: cleared_once


class Routed(nn.Module):
    """Experts behind a router, with a loss that balances them."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(14, 4)
        self.experts = nn.ModuleList(nn.Linear(14, 14) for _ in range(4))
        self.out = nn.Linear(14, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        share = self.router(x).softmax(-1)
        mixed = sum(share[:, n : n + 1] * expert(x) for n, expert in enumerate(self.experts))
        return self.out(torch.tanh(mixed)), share


def balance_without_path(given: Options) -> None:
    """The loss that balances experts is computed from counts, which have no gradient."""
    model = Routed()
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True), debugger(given)
    for _ in range(STEPS):
        x, y = torch.randn(20, 14), torch.randint(0, 3, (20,))
        with recorded(probe, model):
            optimizer.zero_grad()
            scores, share = model(x)
            if given.fault:
                share = F.one_hot(share.argmax(-1), 4).float()
            balance = share.mean(0).square().sum() * 4
            loss = F.cross_entropy(scores, y) + 0.01 * balance  # planted: balance_without_path
            loss.backward()
            optimizer.step()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        through_numpy, no_straight_way, frozen_temperature, critic_keeps_gradients, cleared_once, balance_without_path,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
