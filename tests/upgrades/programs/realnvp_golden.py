"""RealNVP on 2-d-ish toy data: masked coupling layers, Adam from torch."""

import math

import numpy as np
import torch
import torch.nn as nn

D, H, LAYERS = 6, 16, 4


def seeded(name, *shape):
    rng = np.random.default_rng(sum(ord(c) * (i + 1) for i, c in enumerate(name)))
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32)) * 0.3


class MLP(nn.Sequential):
    def __init__(self, tag, last):
        super().__init__(nn.Linear(D, H), nn.Tanh(), nn.Linear(H, D))
        if last:
            self.append(nn.Tanh())
        with torch.no_grad():
            self[0].weight.copy_(seeded(tag + "w1", H, D))
            self[0].bias.copy_(seeded(tag + "b1", H))
            self[2].weight.copy_(seeded(tag + "w2", D, H))
            self[2].bias.copy_(seeded(tag + "b2", D))


class Coupling(nn.Module):
    def __init__(self, i):
        super().__init__()
        self.register_buffer("mask", ((torch.arange(D) + i) % 2 == 0).float())
        self.s = MLP(f"s{i}", last=True)
        self.t = MLP(f"t{i}", last=False)

    def forward(self, x):
        kept = x * self.mask
        s, t = self.s(kept) * (1 - self.mask), self.t(kept) * (1 - self.mask)
        y = kept + (1 - self.mask) * (x * torch.exp(s) + t)
        return y, s.sum(dim=1)

    def inverse(self, y):
        kept = y * self.mask
        s, t = self.s(kept), self.t(kept)
        return kept + (1 - self.mask) * ((y - t) * torch.exp(-s))


class ActNorm(nn.Module):
    def __init__(self, i):
        super().__init__()
        self.loc = nn.Parameter(seeded(f"loc{i}", D))
        self.log_scale = nn.Parameter(seeded(f"ls{i}", D))

    def forward(self, x):
        return (x + self.loc) * self.log_scale.exp(), self.log_scale.sum().expand(x.shape[0])

    def inverse(self, y):
        return y * torch.exp(-self.log_scale) - self.loc


class RealNVP(nn.Module):
    def __init__(self):
        super().__init__()
        self.flows = nn.ModuleList()
        for i in range(LAYERS):
            self.flows.append(ActNorm(i))
            self.flows.append(Coupling(i))

    def forward(self, x):
        logdet = torch.zeros(x.shape[0])
        for f in self.flows:
            x, ld = f(x)
            logdet = logdet + ld
        base = torch.distributions.Normal(0.0, 1.0)
        return base.log_prob(x).sum(1) + logdet

    @torch.no_grad()
    def sample(self, z):
        for f in reversed(self.flows):
            z = f.inverse(z)
        return z


def data(step):
    rng = np.random.default_rng(900 + step)
    angle = rng.uniform(0, 2 * math.pi, (32, D // 2))
    pts = np.concatenate([np.cos(angle), np.sin(angle)], 1) + 0.1 * rng.standard_normal((32, D))
    return torch.tensor(pts, dtype=torch.float32)


def main():
    model = RealNVP()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.9, 0.98))
    for step in range(3):
        loss = -model(data(step)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: nll {loss.item():.9f}")
    z = torch.from_numpy(np.random.default_rng(5).standard_normal((4, D)).astype(np.float32))
    print(f"samples: mean {model.sample(z).mean().item():.9f} std {model.sample(z).std().item():.9f}")


if __name__ == "__main__":
    main()
