"""Forecasting with a GLU mixer on one device: torch.optim.AdamW with two groups and clipped gradients."""

import torch
import torch.nn.functional as F
from torch import nn


class GluMixer(nn.Module):
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


def series(step, batch=16):
    g = torch.Generator().manual_seed(step)
    phase = 6 * torch.rand(batch, 1, 5, generator=g)
    t = torch.arange(20).view(1, -1, 1)
    x = torch.sin(0.4 * t + phase) + 0.1 * torch.randn(batch, 20, 5, generator=g).cumsum(1)
    return x[:, :16], x[:, 16:]


torch.manual_seed(0)
model = Forecaster()
matrices = [p for p in model.parameters() if p.dim() > 1]
vectors = [p for p in model.parameters() if p.dim() == 1]
groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), eps=1e-6)
for step in range(3):
    past, future = series(step)
    loss = F.huber_loss(model(past), future, delta=0.5)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
