"""Forecasting with a GLU mixer; ZeRO stage 1 written as loops over four ranks: sharded AdamW on one flat vector."""

import torch
import torch.nn.functional as F
from torch import nn

RANKS = 4


class GluMixer(nn.Module):
    """Mixes along time and along the series in turn."""

    def __init__(self, length, series):
        super().__init__()
        self.norm = nn.LayerNorm(series)
        self.time = nn.Linear(length, 2 * length)
        self.across = nn.Linear(series, 2 * series)

    def forward(self, x):
        x = x + F.glu(self.time(self.norm(x).transpose(1, 2)), dim=-1).transpose(1, 2)
        return x + F.glu(self.across(x), dim=-1)


class Forecaster(nn.Module):
    def __init__(self, length=16, horizon=4, series=5):
        super().__init__()
        self.blocks = nn.Sequential(GluMixer(length, series), GluMixer(length, series))
        self.project = nn.Linear(length, horizon)

    def forward(self, x):
        last = x[:, -1:]
        return last + self.project(self.blocks(x - last).transpose(1, 2)).transpose(1, 2)


class ZeroAdamW:
    """Every rank has the moments of its shard alone; the shards of the parameters are gathered after the step."""

    def __init__(self, params, lr, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.1, max_norm=0.5):
        self.params = list(params)
        self.lr, self.betas, self.eps, self.weight_decay, self.max_norm = lr, betas, eps, weight_decay, max_norm
        total = sum(p.numel() for p in self.params)
        self.padding = -total % RANKS
        self.decayed = self.flatten([torch.full_like(p, float(p.dim() > 1)) for p in self.params]).chunk(RANKS)
        size = (total + self.padding) // RANKS
        self.moments = [(torch.zeros(size), torch.zeros(size)) for _ in range(RANKS)]
        self.steps = 0

    def flatten(self, tensors):
        return F.pad(torch.cat([t.flatten() for t in tensors]), (0, self.padding))

    @torch.no_grad()
    def step(self, gradients_of_ranks):
        mean = sum(self.flatten(gradients) for gradients in gradients_of_ranks) / RANKS
        gradients = mean.chunk(RANKS)
        weights = list(self.flatten(self.params).chunk(RANKS))
        squares = [g.square().sum() for g in gradients]
        norm = torch.stack(squares).sum().sqrt()
        self.steps += 1
        for rank in range(RANKS):
            clip = (self.max_norm / (norm + 1e-6)).clamp(max=1.0)
            gradient = gradients[rank] * clip
            first, second = self.moments[rank]
            first.lerp_(gradient, 1 - self.betas[0])
            second.lerp_(gradient.square(), 1 - self.betas[1])
            corrected = first / (1 - self.betas[0] ** self.steps)
            scale = (second / (1 - self.betas[1] ** self.steps)).sqrt() + self.eps
            decay = 1 - self.lr * self.weight_decay * self.decayed[rank]
            weights[rank] = weights[rank] * decay - self.lr * corrected / scale
        gathered = torch.cat(weights)
        start = 0
        for p in self.params:
            p.copy_(gathered[start : start + p.numel()].view_as(p))
            start += p.numel()


def series(step, batch=16):
    g = torch.Generator().manual_seed(step)
    phase = 6 * torch.rand(batch, 1, 5, generator=g)
    t = torch.arange(20).view(1, -1, 1)
    x = torch.sin(0.4 * t + phase) + 0.1 * torch.randn(batch, 20, 5, generator=g).cumsum(1)
    return x[:, :16], x[:, 16:]


torch.manual_seed(0)
model = Forecaster()
optimizer = ZeroAdamW(model.parameters(), lr=3e-3)
for step in range(3):
    past, future = series(step)
    gradients, losses = [], []
    for x, y in zip(past.chunk(RANKS), future.chunk(RANKS)):
        loss = F.huber_loss(model(x), y, delta=0.5)
        gradients.append(torch.autograd.grad(loss, optimizer.params))
        losses.append(loss.detach())
    optimizer.step(gradients)
    print(f"step {step} loss {torch.stack(losses).mean().item():.9f}")
