"""Denoising diffusion on 1-d signals, everything in float64."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
T, LEN, CH, EMB = 50, 16, 8, 12


def time_embedding(t):
    half = EMB // 2
    freq = torch.exp(-math.log(1000.0) * torch.arange(half) / half)
    arg = t[:, None].double() * freq[None]
    return torch.cat([torch.sin(arg), torch.cos(arg)], dim=1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm1 = nn.GroupNorm(2, cin)
        self.conv1 = nn.Conv1d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(EMB, cout)
        self.norm2 = nn.GroupNorm(2, cout)
        self.conv2 = nn.Conv1d(cout, cout, 3, padding=1)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(F.silu(emb))[:, :, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)


class UNet1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(EMB, EMB), nn.SiLU(), nn.Linear(EMB, EMB))
        self.stem = nn.Conv1d(2, CH, 3, padding=1)
        self.down1 = ResBlock(CH, CH)
        self.pool = nn.Conv1d(CH, CH, 3, stride=2, padding=1)
        self.mid = ResBlock(CH, 2 * CH)
        self.up = nn.ConvTranspose1d(2 * CH, CH, 2, stride=2)
        self.up1 = ResBlock(2 * CH, CH)
        self.out = nn.Conv1d(CH, 2, 3, padding=1)

    def forward(self, x, t):
        emb = self.time(time_embedding(t))
        skip = self.down1(self.stem(x), emb)
        h = self.mid(self.pool(skip), emb)
        h = torch.cat([self.up(h), skip], dim=1)
        return self.out(F.silu(self.up1(h, emb)))


def build():
    return UNet1d()


def schedule():
    s = 0.008
    steps = torch.arange(T + 1) / T
    f = torch.cos((steps + s) / (1 + s) * math.pi / 2) ** 2
    betas = (1 - f[1:] / f[:-1]).clamp(max=0.999)
    return torch.cumprod(1 - betas, dim=0)


def signals(step):
    g = torch.Generator().manual_seed(step)
    phase = torch.rand(8, 2, 1, generator=g) * 6.28
    x = torch.sin(torch.arange(LEN) * 0.7 + phase)
    t = torch.randint(0, T, (8,), generator=g)
    return x, t, torch.randn(8, 2, LEN, generator=g)


@torch.no_grad()
def ddim(model, alpha_bar, x, stride=10):
    times = list(range(T - 1, -1, -stride))
    for i, t in enumerate(times):
        a = alpha_bar[t]
        prev = alpha_bar[times[i + 1]] if i + 1 < len(times) else torch.tensor(1.0)
        eps = model(x, torch.full((len(x),), t))
        x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1.5, 1.5)
        x = prev.sqrt() * x0 + (1 - prev).sqrt() * eps
    return x


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    alpha_bar = schedule()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for step in range(3):
        x0, t, noise = signals(step)
        a = alpha_bar[t][:, None, None]
        noisy = a.sqrt() * x0 + (1 - a).sqrt() * noise
        loss = F.mse_loss(model(noisy, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")
    x = ddim(model, alpha_bar, torch.randn(3, 2, LEN, generator=torch.Generator().manual_seed(9)))
    print(f"sampled: mean {x.mean().item():.9f} std {x.std().item():.9f}")


if __name__ == "__main__":
    main()
