"""Fourier neural operator in two dimensions: from an initial field to a later state of a damped wave."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)
S, MODES, WIDTH = 16, 4, 12


class SpectralConv2d(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        scale = width**-0.5
        self.w_pos = nn.Parameter(scale * torch.randn(width, width, modes, modes, dtype=torch.cfloat))
        self.w_neg = nn.Parameter(scale * torch.randn(width, width, modes, modes, dtype=torch.cfloat))

    def forward(self, x):
        m = self.modes
        x_ft = torch.fft.rfft2(x, norm="ortho")
        out = torch.zeros_like(x_ft)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", x_ft[:, :, :m, :m], self.w_pos)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", x_ft[:, :, -m:, :m], self.w_neg)
        return torch.fft.irfft2(out, s=x.shape[-2:], norm="ortho")


class FNOBlock(nn.Module):
    def __init__(self, width, modes, last=False):
        super().__init__()
        self.spectral = SpectralConv2d(width, modes)
        self.bypass = nn.Conv2d(width, width, 1)
        self.last = last

    def forward(self, x):
        y = self.spectral(x) + self.bypass(x)
        return y if self.last else F.gelu(y)


class Lifting(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(3, width)

    def forward(self, a):
        b, h, w = a.shape
        gy = torch.linspace(0, 1, h).view(1, h, 1).expand(b, h, w)
        gx = torch.linspace(0, 1, w).view(1, 1, w).expand(b, h, w)
        return self.fc(torch.stack([a, gy, gx], dim=-1)).permute(0, 3, 1, 2)


class UnitGaussian(nn.Module):
    """Point-wise statistics of the training set."""

    def __init__(self, data):
        super().__init__()
        self.register_buffer("mean", data.mean(0))
        self.register_buffer("std", data.std(0) + 1e-5)

    def forward(self, x):
        return (x - self.mean) / self.std

    def decode(self, x):
        return x * self.std + self.mean


class FNO(nn.Module):
    def __init__(self, a, u, depth=3):
        super().__init__()
        self.enc, self.dec = UnitGaussian(a), UnitGaussian(u)
        self.lift = Lifting(WIDTH)
        self.blocks = nn.Sequential(*[FNOBlock(WIDTH, MODES, last=i == depth - 1) for i in range(depth)])
        self.project = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, a):
        v = self.blocks(self.lift(self.enc(a)))
        out = self.project(v.permute(0, 2, 3, 1)).squeeze(-1)
        return self.dec.decode(out)


def wave_data(n, gen):
    k = torch.fft.fftfreq(S, 1 / S)
    k2 = k[:, None] ** 2 + k[None, :] ** 2
    noise = torch.fft.fft2(torch.randn(n, S, S, generator=gen))
    a = torch.fft.ifft2(noise * (1 + k2) ** -1.0).real * 3
    u = torch.fft.ifft2(torch.fft.fft2(a) * torch.exp(-0.02 * k2) * torch.cos(0.5 * k2.sqrt())).real
    return a, u + 0.1 * a**2


def rel_l2(pred, true):
    diff = (pred - true).flatten(1).norm(dim=1)
    return (diff / true.flatten(1).norm(dim=1)).mean()


gen = torch.Generator().manual_seed(4)
a_all, u_all = wave_data(48, gen)
model = FNO(a_all, u_all)
opt = torch.optim.Adam(model.parameters(), lr=4e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=6)
perm = torch.randperm(48, generator=gen).view(3, 16)
for step in range(3):
    a, u = a_all[perm[step]], u_all[perm[step]]
    loss = rel_l2(model(a), u)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    print(f"step {step} loss {loss.item():.9f}")
