# Attention U-Net as a recursion of levels, with checkpointing, soft labels for mixup and smoothing, own schedule.
from math import cos, pi

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

K = 4
TOTAL, WARMUP, PEAK = 4, 2, 0.3


class ConvGN(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3)
        self.gain, self.shift = nn.Parameter(torch.ones(cout)), nn.Parameter(torch.zeros(cout))

    def forward(self, x):
        x = self.conv(F.pad(x, (1, 1, 1, 1)))
        n, c, h, w = x.shape
        g = x.reshape(n, 2, -1)
        g = g - g.mean(-1, keepdim=True)
        g = g / torch.sqrt((g * g).mean(-1, keepdim=True) + 1e-5)
        return torch.relu(g.view(n, c, h, w) * self.gain[:, None, None] + self.shift[:, None, None])


class Gate(nn.Module):
    """one product over both inputs"""

    def __init__(self, ch, mid):
        super().__init__()
        self.both = nn.Conv2d(2 * ch, mid, 1)
        self.psi = nn.Conv2d(mid, 1, 1)

    def forward(self, skip, up):
        a = self.psi(self.both(torch.cat([skip, up], 1)).relu())
        return skip * (0.5 + 0.5 * torch.tanh(0.5 * a))


class Upsample(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(cin, cout, 2, 2))
        self.bias = nn.Parameter(torch.zeros(cout))

    def forward(self, x):
        y = torch.einsum("nihw,iopq->nohpwq", x, self.weight)
        return y.flatten(4, 5).flatten(2, 3) + self.bias[:, None, None]


class Level(nn.Module):
    """encoder - what is below - decoder"""

    def __init__(self, cin, ch, below, below_ch):
        super().__init__()
        self.down = nn.Sequential(ConvGN(cin, ch), ConvGN(ch, ch))
        self.below = below
        self.up = Upsample(below_ch, ch)
        self.gate = Gate(ch, ch // 2)
        self.merge = nn.Sequential(ConvGN(2 * ch, ch), ConvGN(ch, ch))

    def forward(self, x):
        skip = checkpoint(self.down, x, use_reentrant=False)
        up = self.up(self.below(F.max_pool2d(skip, 2)))
        cat = torch.cat([self.gate(skip, up), up], dim=1)
        return checkpoint(self.merge, cat, use_reentrant=False)


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        bottom = nn.Sequential(ConvGN(12, 16), ConvGN(16, 16))
        self.net = Level(2, 8, Level(8, 12, bottom, 16), 12)
        self.head = nn.Conv2d(8, K, 1)

    def forward(self, x):
        return self.head(self.net(x))


def convert(sd):
    out = {"head.weight": sd["head.weight"], "head.bias": sd["head.bias"]}
    blocks = {
        "enc1": "net.down",
        "enc2": "net.below.down",
        "mid": "net.below.below",
        "dec2": "net.below.merge",
        "dec1": "net.merge",
    }
    for src, dst in blocks.items():
        for i in range(2):
            for kind in ("weight", "bias"):
                out[f"{dst}.{i}.conv.{kind}"] = sd[f"{src}.block.{3 * i}.{kind}"]
            out[f"{dst}.{i}.gain"] = sd[f"{src}.block.{3 * i + 1}.weight"]
            out[f"{dst}.{i}.shift"] = sd[f"{src}.block.{3 * i + 1}.bias"]
    for n, dst in ((1, "net"), (2, "net.below")):
        out[f"{dst}.up.weight"], out[f"{dst}.up.bias"] = sd[f"up{n}.weight"], sd[f"up{n}.bias"]
        out[f"{dst}.gate.both.weight"] = torch.cat([sd[f"gate{n}.theta.weight"], sd[f"gate{n}.phi.weight"]], 1)
        out[f"{dst}.gate.both.bias"] = sd[f"gate{n}.phi.bias"]
        out[f"{dst}.gate.psi.weight"], out[f"{dst}.gate.psi.bias"] = sd[f"gate{n}.psi.weight"], sd[f"gate{n}.psi.bias"]
    return out


def loss_fn(logits, hard_a, hard_b, lam):
    a, b = F.one_hot(hard_a, K).float(), F.one_hot(hard_b, K).float()
    soft = lam * a + (1 - lam) * b
    soft = 0.9 * soft + 0.1 / K
    logp = F.log_softmax(logits.movedim(1, -1), dim=-1)
    ce = -(soft * logp).sum(-1).mean()
    p = logp.exp().reshape(-1, K)
    dice = 0.0
    for t, weight in ((a.reshape(-1, K), lam), (b.reshape(-1, K), 1 - lam)):
        score = (2 * (p * t).sum(0) + 1) / ((p + t).sum(0) + 1)
        dice = dice + weight * (1 - score.mean())
    return ce + 0.5 * dice


def rate(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    done = (step - WARMUP) / (TOTAL - WARMUP)
    return PEAK * (1 + cos(pi * done)) / 2


def main():
    model = Segmenter()
    model.load_state_dict(convert(torch.load("weights.pt")))
    opt = torch.optim.SGD(model.parameters(), lr=PEAK, momentum=0.9, weight_decay=1e-3, foreach=True)
    for step in range(TOTAL):
        g = torch.Generator().manual_seed(40 + step)
        x = torch.randn(6, 2, 16, 16, generator=g)
        y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0.5).long()
        lam = float(np.random.default_rng(step).beta(0.8, 0.8))
        other = torch.randperm(6, generator=g)
        for group in opt.param_groups:
            group["lr"] = rate(step)
        loss = loss_fn(model(torch.lerp(x[other], x, lam)), y, y[other], lam)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: lr {rate(step):.9f} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
