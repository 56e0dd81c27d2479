"""Correct trainings with other objectives than a loss on labels: several optimizers, networks and frozen parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import Options, debugger, options, recorded

STEPS = 3


def mlp(*widths: int, last: type[nn.Module] | None = None) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([last()] if last else []))


def train(
    given: Options, model: nn.Module, loss_of: Callable[[], Tensor], *, after: Callable[[], None] = lambda: None
) -> None:
    """Train the parameters that need a gradient."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            loss = loss_of()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            after()


def gan(given: Options) -> None:
    """Two networks that train against each other."""
    pair = nn.ModuleDict({"generator": mlp(6, 24, 10), "critic": mlp(10, 24, 1)})
    makes, judges = (torch.optim.Adam(pair[name].parameters(), lr=1e-3, betas=(0.5, 0.9)) for name in pair)
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, pair):
            real, made = torch.randn(8, 10) + 2, pair["generator"](torch.randn(8, 6))
            scores = pair["critic"](torch.cat([real, made.detach()]))
            labels = torch.cat([torch.ones(8, 1), torch.zeros(8, 1)])
            judges.zero_grad()
            F.binary_cross_entropy_with_logits(scores, labels).backward()
            judges.step()
            makes.zero_grad()
            F.binary_cross_entropy_with_logits(pair["critic"](made), torch.ones(8, 1)).backward()
            makes.step()


def vae(given: Options) -> None:
    """A variational autoencoder."""
    model = nn.ModuleDict({"encoder": mlp(16, 32, 8), "decoder": mlp(4, 32, 16, last=nn.Sigmoid)})

    def loss() -> Tensor:
        x = torch.rand(10, 16)
        mean, log_variance = model["encoder"](x).chunk(2, -1)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1).mean()
        return F.binary_cross_entropy(model["decoder"](latent), x, reduction="none").sum(-1).mean() + divergence

    train(given, model, loss)


def diffusion(given: Options) -> None:
    """A small network that predicts the noise, with an output layer that begins at zero, as is usual."""
    model = nn.ModuleDict({
        "time": nn.Embedding(50, 16),
        "inputs": nn.Linear(12, 16),
        "body": mlp(16, 32, 16),
        "out": nn.Linear(16, 12),
    })
    nn.init.zeros_(model["out"].weight)
    nn.init.zeros_(model["out"].bias)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0)

    def loss() -> Tensor:
        x, noise, time = torch.randn(8, 12), torch.randn(8, 12), torch.randint(0, 50, (8,))
        share = kept[time][:, None]
        noisy = share.sqrt() * x + (1 - share).sqrt() * noise
        return F.mse_loss(model["out"](model["body"](model["inputs"](noisy) + model["time"](time))), noise)

    train(given, model, loss)


def policy(given: Options) -> None:
    """A policy gradient with a baseline; actions are drawn without gradients."""
    model = nn.ModuleDict({"policy": mlp(5, 24, 3), "value": mlp(5, 24, 1)})

    def loss() -> Tensor:
        states = torch.randn(20, 5)
        choices = torch.distributions.Categorical(logits=model["policy"](states))
        actions = choices.sample()
        rewards = (actions == states[:, :3].argmax(-1)).float()
        values = model["value"](states).squeeze(-1)
        advantage = (rewards - values).detach()
        return (
            -(choices.log_prob(actions) * advantage).mean()
            + F.mse_loss(values, rewards)
            - 0.01 * choices.entropy().mean()
        )

    train(given, model, loss)


def two_tower(given: Options) -> None:
    """Contrastive training of two encoders with a learned temperature."""

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = mlp(8, 24, 6), mlp(12, 24, 6)
            self.scale = nn.Parameter(torch.tensor(2.6))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.scale.exp() * F.normalize(self.left(x), dim=-1) @ F.normalize(self.right(y), dim=-1).mT

    model = Towers()

    def loss() -> Tensor:
        x = torch.randn(6, 8)
        scores = model(x, torch.cat([x, x[:, :4]], 1) + 0.1 * torch.randn(6, 12))
        return (F.cross_entropy(scores, torch.arange(6)) + F.cross_entropy(scores.mT, torch.arange(6))) / 2

    train(given, model, loss)


def stop_gradient(given: Options) -> None:
    """Two views of the same images; the target side has no gradient (SimSiam)."""
    model = nn.ModuleDict({
        "encoder": nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 8)),
        "predictor": mlp(8, 8, 8),
    })

    def loss() -> Tensor:
        x = torch.randn(12, 10)
        left, right = (model["encoder"](x + 0.1 * torch.randn_like(x)) for _ in range(2))
        pairs = (model["predictor"](left), right.detach()), (model["predictor"](right), left.detach())
        return -sum(F.cosine_similarity(*pair).mean() for pair in pairs) / 2

    train(given, model, loss)


def distillation(given: Options) -> None:
    """A small model learns from a larger one that stays as it is."""
    teacher, student = mlp(9, 64, 4).eval().requires_grad_(False), mlp(9, 12, 4)
    both = nn.ModuleDict({"teacher": teacher, "student": student})

    def loss() -> Tensor:
        x = torch.randn(14, 9)
        with torch.no_grad():
            wanted = (teacher(x) / 2).softmax(-1)
        return F.kl_div((student(x) / 2).log_softmax(-1), wanted, reduction="batchmean") * 4

    train(given, both, loss)


def dqn(given: Options) -> None:
    """Q-learning; a target network follows slowly and gets no gradient."""
    online = mlp(4, 24, 2)
    target = copy.deepcopy(online).requires_grad_(False)
    both = nn.ModuleDict({"online": online, "target": target})

    def loss() -> Tensor:
        state, after, action = torch.randn(16, 4), torch.randn(16, 4), torch.randint(0, 2, (16, 1))
        reward, ended = torch.randn(16), torch.rand(16) < 0.1
        with torch.no_grad():
            wanted = reward + 0.99 * target(after).max(-1).values * ~ended
        return F.smooth_l1_loss(online(state).gather(1, action).squeeze(-1), wanted)

    @torch.no_grad()
    def follow() -> None:
        for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
            slow.lerp_(fast, 0.05)

    train(given, both, loss, after=follow)


def ctc(given: Options) -> None:
    """A recurrent network that labels sequences without an alignment."""
    model = nn.ModuleDict({
        "rnn": nn.LSTM(6, 12, num_layers=2, dropout=0.1, bidirectional=True),
        "out": nn.Linear(24, 8),
    })

    def loss() -> Tensor:
        hidden, _ = model["rnn"](torch.randn(20, 4, 6))
        scores = model["out"](hidden).log_softmax(-1)
        lengths = torch.tensor([5, 3, 4, 5])
        return F.ctc_loss(scores, torch.randint(1, 8, (4, 5)), torch.full((4,), 20), lengths)

    train(given, model, loss)


def factorization(given: Options) -> None:
    """Ratings of users for items; a batch holds a few of them, and rows that are not in it do not move."""
    model = nn.ModuleDict({
        "user": nn.Embedding(100, 8, sparse=False),
        "item": nn.Embedding(300, 8),
        "bias": nn.Embedding(300, 1),
    })

    def loss() -> Tensor:
        user, item, rating = torch.randint(0, 30, (20,)), torch.randint(0, 50, (20,)), torch.rand(20) * 5
        guess = (model["user"](user) * model["item"](item)).sum(-1) + model["bias"](item).squeeze(-1) + 2.5
        return F.mse_loss(guess, rating)

    train(given, model, loss)


def main() -> None:
    given = options()
    PROGRAMS[given.name](given)


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (gan, vae, diffusion, policy, two_tower, stop_gradient, distillation, dqn, ctc, factorization)
}

if __name__ == "__main__":
    main()
