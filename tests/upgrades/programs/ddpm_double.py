"""float32 version of the 1-d diffusion model; channels-last tensors, convolutions as sums of matmuls."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Hyper(NamedTuple):
    steps: int = 50
    length: int = 16
    width: int = 8
    emb: int = 12


class TimeFeatures(nn.Module):
    def __init__(self, emb):
        super().__init__()
        half = emb // 2
        self.register_buffer("freq", 1000.0 ** (-torch.arange(half) / half))

    def forward(self, t):
        arg = torch.outer(t.float(), self.freq)
        return torch.hstack((arg.sin(), arg.cos()))


class TapConv(nn.Module):
    """(batch, time, channels) convolution with three taps; stride by slicing."""

    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.stride = stride
        self.taps = nn.ParameterList(torch.zeros(cin, cout) for _ in range(3))
        self.bias = nn.Parameter(torch.zeros(cout))

    def forward(self, x):
        n = x.shape[1]
        p = F.pad(x, (0, 0, 1, 1))
        out = sum(p[:, i : i + n] @ w for i, w in enumerate(self.taps))
        return out[:, :: self.stride] + self.bias


class ChannelGroupNorm(nn.Module):
    def __init__(self, groups, ch):
        super().__init__()
        self.groups = groups
        self.gain, self.shift = nn.Parameter(torch.ones(ch)), nn.Parameter(torch.zeros(ch))

    def forward(self, x):
        b, n, c = x.shape
        g = x.view(b, n, self.groups, c // self.groups)
        var, mean = torch.var_mean(g, dim=(1, 3), correction=0, keepdim=True)
        g = (g - mean) * torch.rsqrt(var + 1e-5)
        return torch.addcmul(self.shift, g.reshape(b, n, c), self.gain)


class Res(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.n1, self.c1 = ChannelGroupNorm(2, cin), TapConv(cin, cout)
        self.n2, self.c2 = ChannelGroupNorm(2, cout), TapConv(cout, cout)
        self.t = nn.Linear(emb, cout)
        self.short = nn.Linear(cin, cout) if cin != cout else None

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(e)).unsqueeze(1)
        h = self.c2(F.silu(self.n2(h)))
        return h + (x if self.short is None else self.short(x))


class Denoiser(nn.Module):
    def __init__(self, hp):
        super().__init__()
        w = hp.width
        self.features = TimeFeatures(hp.emb)
        self.t1, self.t2 = nn.Linear(hp.emb, hp.emb), nn.Linear(hp.emb, hp.emb)
        self.stem, self.shrink, self.out = TapConv(2, w), TapConv(w, w, 2), TapConv(w, 2)
        self.enc, self.mid, self.dec = Res(w, w, hp.emb), Res(w, 2 * w, hp.emb), Res(2 * w, w, hp.emb)
        self.grow = nn.Linear(2 * w, 2 * w, bias=False)
        self.grow_bias = nn.Parameter(torch.zeros(w))

    def forward(self, x, t):
        e = self.t2(F.silu(self.t1(self.features(t))))
        skip = self.enc(self.stem(x.transpose(1, 2)), e)
        h = self.mid(self.shrink(skip), e)
        h = self.grow(h).reshape(h.shape[0], 2 * h.shape[1], -1) + self.grow_bias
        h = self.dec(torch.cat((h, skip), dim=-1), e)
        return self.out(F.silu(h)).transpose(1, 2)


def convert(model, sd):
    sd = {k: v.float() for k, v in sd.items()}

    def conv(m, key):
        for i, tap in enumerate(m.taps):
            tap.copy_(sd[key + ".weight"][:, :, i].t())
        m.bias.copy_(sd[key + ".bias"])

    def dense(m, key):
        m.weight.copy_(sd[key + ".weight"].flatten(1))
        m.bias.copy_(sd[key + ".bias"])

    with torch.no_grad():
        dense(model.t1, "time.0"), dense(model.t2, "time.2")
        conv(model.stem, "stem"), conv(model.shrink, "pool"), conv(model.out, "out")
        for m, key in ((model.enc, "down1"), (model.mid, "mid"), (model.dec, "up1")):
            for norm, name in ((m.n1, "norm1"), (m.n2, "norm2")):
                norm.gain.copy_(sd[f"{key}.{name}.weight"]), norm.shift.copy_(sd[f"{key}.{name}.bias"])
            conv(m.c1, key + ".conv1"), conv(m.c2, key + ".conv2"), dense(m.t, key + ".emb")
            if m.short is not None:
                dense(m.short, key + ".skip")
        model.grow.weight.copy_(sd["up.weight"].permute(2, 1, 0).flatten(0, 1))
        model.grow_bias.copy_(sd["up.bias"])


class Diffusion:
    def __init__(self, hp):
        f = torch.cos((torch.arange(hp.steps + 1) / hp.steps + 0.008) / 1.008 * math.pi / 2) ** 2
        keep = (f[1:] / f[:-1]).clamp(min=0.001)
        self.abar = keep.cumprod(0)

    def noisy(self, x0, t, eps):
        a = self.abar[t].view(-1, 1, 1)
        return torch.sqrt(a) * x0 + torch.sqrt(1 - a) * eps

    @torch.no_grad()
    def sample(self, model, x):
        times = torch.arange(len(self.abar) - 1, -1, -10)
        now = self.abar[times]
        later = torch.cat([now[1:], torch.ones(1)])
        for t, a, b in zip(times, now, later):
            eps = model(x, t.expand(len(x)))
            x0 = torch.clip((x - torch.sqrt(1 - a) * eps) / torch.sqrt(a), -1.5, 1.5)
            x = torch.sqrt(b) * x0 + torch.sqrt(1 - b) * eps
        return x


def main():
    hp = Hyper()
    model, diff = Denoiser(hp), Diffusion(hp)
    convert(model, torch.load("weights.pt"))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for step in range(3):
        g = torch.Generator().manual_seed(step)
        phase = torch.rand(8, 2, 1, generator=g, dtype=torch.float64) * 6.28
        x0 = torch.sin(torch.arange(hp.length) * 0.7 + phase).float()
        t = torch.randint(0, hp.steps, (8,), generator=g)
        eps = torch.randn(8, 2, hp.length, generator=g, dtype=torch.float64).float()
        err = model(diff.noisy(x0, t, eps), t) - eps
        loss = err.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")
    start = torch.randn(3, 2, hp.length, generator=torch.Generator().manual_seed(9), dtype=torch.float64).float()
    x = diff.sample(model, start)
    print(f"sampled: mean {x.mean().item():.9f} std {x.std().item():.9f}")


if __name__ == "__main__":
    main()
