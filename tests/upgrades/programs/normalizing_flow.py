"""A normalizing flow of couplings."""

import math

import torch
from torch import nn

torch.manual_seed(5)


class Coupling(nn.Module):
    def __init__(self, dim, flip):
        super().__init__()
        self.flip = flip
        half = dim // 2
        self.net = nn.Sequential(nn.Linear(half, 24), nn.ReLU(), nn.Linear(24, 2 * half))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        shift, raw = self.net(a).chunk(2, 1)
        log_scale = torch.tanh(raw)
        b = b * log_scale.exp() + shift
        y = torch.cat([b, a], 1) if self.flip else torch.cat([a, b], 1)
        return y, log_scale.sum(1)


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(dim))
        self.log_s = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x):
        return (x - self.loc) * torch.exp(self.log_s), self.log_s.sum().expand(len(x))


class Flow(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.steps = nn.ModuleList()
        for i in range(3):
            self.steps.append(ActNorm(dim))
            self.steps.append(Coupling(dim, i % 2 == 1))

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for s in self.steps:
            x, ld = s(x)
            total = total + ld
        base = -0.5 * (x.pow(2) + math.log(2 * math.pi)).sum(1)
        return base + total

    forward = log_prob


flow = Flow()
opt = torch.optim.SGD(flow.parameters(), lr=0.05, momentum=0.5)
gen = torch.Generator().manual_seed(6)
for epoch in range(3):
    data = torch.randn(32, 4, generator=gen) @ torch.tensor([
        [1.0, 0.5, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 2, 0],
        [0, 0.3, 0, 1],
    ])
    nll = -flow(data).mean()
    opt.zero_grad()
    nll.backward()
    nn.utils.clip_grad_norm_(flow.parameters(), 1.0)
    opt.step()
    print(f"epoch {epoch} nll {nll.item():.9f}")
