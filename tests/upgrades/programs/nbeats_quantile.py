"""A training of three steps."""

import math

import torch
from torch import nn

LOOKBACK, HORIZON, QUANTILES = 32, 8, (0.1, 0.5, 0.9)


def synth(n_series=20, length=80, seed=5):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length).float()
    period = torch.randint(6, 13, (n_series, 1), generator=g).float()
    amp = torch.rand(n_series, 1, generator=g) + 0.5
    slope = 0.02 * torch.randn(n_series, 1, generator=g)
    noise = 0.15 * torch.randn(n_series, length, generator=g)
    return 3.0 + slope * t + amp * torch.sin(2 * math.pi * t / period) + noise


class TrendBasis(nn.Module):
    def __init__(self, degree, back, fore):
        super().__init__()
        self.n = degree + 1
        powers = torch.arange(self.n).float()[:, None]
        self.register_buffer("tb", (torch.arange(back).float() / back) ** powers)
        self.register_buffer("tf", (torch.arange(fore).float() / fore) ** powers)

    def forward(self, theta_b, theta_f):
        fore = torch.einsum("bqn,nh->bqh", theta_f, self.tf)
        return theta_b @ self.tb, fore


class SeasonBasis(nn.Module):
    def __init__(self, harmonics, back, fore):
        super().__init__()
        self.n = 2 * harmonics
        freq = torch.arange(1, harmonics + 1).float()[:, None]
        for name, size in (("sb", back), ("sf", fore)):
            arg = 2 * math.pi * freq * torch.arange(size).float() / size
            self.register_buffer(name, torch.cat([arg.cos(), arg.sin()]))

    def forward(self, theta_b, theta_f):
        fore = torch.einsum("bqn,nh->bqh", theta_f, self.sf)
        return theta_b @ self.sb, fore


class Block(nn.Module):
    def __init__(self, basis, width=40):
        super().__init__()
        self.basis = basis
        self.trunk = nn.Sequential(nn.Linear(LOOKBACK, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.theta_b = nn.Linear(width, basis.n, bias=False)
        self.theta_f = nn.Linear(width, basis.n * len(QUANTILES), bias=False)

    def forward(self, x):
        h = self.trunk(x)
        theta_f = self.theta_f(h).view(-1, len(QUANTILES), self.basis.n)
        return self.basis(self.theta_b(h), theta_f)


class NBeats(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = [Block(TrendBasis(2, LOOKBACK, HORIZON)) for _ in range(2)]
        blocks += [Block(SeasonBasis(4, LOOKBACK, HORIZON)) for _ in range(2)]
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        scale = x.abs().mean(dim=1, keepdim=True)
        residual = x / scale
        forecast = residual[:, -1:, None].expand(-1, len(QUANTILES), HORIZON)
        for block in self.blocks:
            back, fore = block(residual)
            residual = residual - back
            forecast = forecast + fore
        return forecast * scale.unsqueeze(-1), residual


def pinball(pred, target):
    q = torch.tensor(QUANTILES).view(1, -1, 1)
    err = target.unsqueeze(1) - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


def main():
    torch.manual_seed(21)
    series = synth()
    net = NBeats()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.02)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: min(1.0, (k + 1) / 2) * 0.5 ** (k // 2))
    for step in range(3):
        start = 4 + 11 * step
        window = series[:, start : start + LOOKBACK + HORIZON]
        past, future = window[:, :LOOKBACK], window[:, LOOKBACK:]
        pred, rest = net(past)
        crossing = (pred[:, :-1] - pred[:, 1:]).clamp(min=0).mean()
        loss = pinball(pred, future) + 0.1 * rest.pow(2).mean() + 0.05 * crossing
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        sched.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
