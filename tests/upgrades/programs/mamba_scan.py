# Selective state space model with a parallel (recursive doubling) scan.
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Cfg:
    vocab: int = 23
    width: int = 12
    n_state: int = 4
    dt_rank: int = 3
    n_layer: int = 2
    n_class: int = 5
    k: int = 3


def shift(x, by, fill):
    """Move x by `by` positions along time (dim 1)."""
    return F.pad(x[:, :-by], (0, 0, 0, 0, by, 0), value=fill)


class ParallelScan(nn.Module):
    """h[t] = a[t] * h[t-1] + b[t] for all t at once."""

    def forward(self, a, b):
        by = 1
        while by < a.shape[1]:
            b_prev, a_prev = shift(b, by, 0.0), shift(a, by, 1.0)
            b = b + a * b_prev
            a = a * a_prev
            by *= 2
        return b


class CausalDepthwise(nn.Module):
    def __init__(self, channels, k):
        super().__init__()
        self.taps = nn.Parameter(torch.zeros(k, channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        k = self.taps.shape[0]
        padded = F.pad(x, (0, 0, k - 1, 0))
        out = self.bias
        for i in range(k):
            out = out + padded[:, i : i + x.shape[1]] * self.taps[i]
        return out


class S6(nn.Module):
    def __init__(self, c):
        super().__init__()
        e = 2 * c.width
        self.w_x = nn.Linear(c.width, e, bias=False)
        self.w_gate = nn.Linear(c.width, e, bias=False)
        self.conv = CausalDepthwise(e, c.k)
        self.w_dt_low = nn.Linear(e, c.dt_rank, bias=False)
        self.w_b = nn.Linear(e, c.n_state, bias=False)
        self.w_c = nn.Linear(e, c.n_state, bias=False)
        self.w_dt = nn.Linear(c.dt_rank, e)
        self.log_a = nn.Parameter(torch.zeros(e, c.n_state))
        self.skip = nn.Parameter(torch.zeros(e))
        self.scan = ParallelScan()
        self.w_out = nn.Linear(e, c.width, bias=False)

    def forward(self, u):
        x = F.silu(self.conv(self.w_x(u)))
        delta = F.softplus(self.w_dt(self.w_dt_low(x)))
        decay = torch.exp(-delta.unsqueeze(-1) * self.log_a.exp())
        drive = (delta * x).unsqueeze(-1) * self.w_b(x).unsqueeze(2)
        h = self.scan(decay, drive)
        y = (h @ self.w_c(x).unsqueeze(-1)).squeeze(-1)
        y = y + self.skip * x
        return self.w_out(y * F.silu(self.w_gate(u)))


class Net(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.width)
        self.norms = nn.ModuleList([nn.RMSNorm(c.width, eps=1e-5) for _ in range(c.n_layer + 1)])
        self.mixers = nn.ModuleList([S6(c) for _ in range(c.n_layer)])
        self.out = nn.Linear(c.width, c.n_class)

    def forward(self, ids):
        h = self.tok(ids)
        for norm, mixer in zip(self.norms, self.mixers):
            h = h + mixer(norm(h))
        return self.out(self.norms[-1](h).sum(1) / ids.shape[1])


def convert(sd, c):
    new = {
        "tok.weight": sd["embed.weight"],
        "out.weight": sd["head.weight"],
        "out.bias": sd["head.bias"],
        f"norms.{c.n_layer}.weight": sd["norm_f.weight"],
    }
    for i in range(c.n_layer):
        src, dst = f"layers.{i}.mixer.", f"mixers.{i}."
        new[f"norms.{i}.weight"] = sd[f"layers.{i}.norm.weight"]
        new[dst + "w_x.weight"], new[dst + "w_gate.weight"] = sd[src + "in_proj.weight"].chunk(2)
        new[dst + "conv.taps"] = sd[src + "conv1d.weight"][:, 0].t()
        new[dst + "conv.bias"] = sd[src + "conv1d.bias"]
        parts = sd[src + "x_proj.weight"].split([c.dt_rank, c.n_state, c.n_state])
        for name, part in zip(("w_dt_low", "w_b", "w_c"), parts):
            new[dst + name + ".weight"] = part
        new[dst + "w_dt.weight"], new[dst + "w_dt.bias"] = sd[src + "dt_proj.weight"], sd[src + "dt_proj.bias"]
        new[dst + "log_a"], new[dst + "skip"] = sd[src + "A_log"], sd[src + "D"]
        new[dst + "w_out.weight"] = sd[src + "out_proj.weight"]
    return new


def checkpoint(c, seed=0):
    """The reference model's weights, by its names, drawn in the order of the names."""
    e, w = 2 * c.width, c.width
    shapes = {
        "embed.weight": (c.vocab, w),
        "head.weight": (c.n_class, w),
        "head.bias": (c.n_class,),
        "norm_f.weight": (w,),
    }
    for i in range(c.n_layer):
        m = f"layers.{i}.mixer."
        shapes.update({
            f"layers.{i}.norm.weight": (w,),
            m + "A_log": (e, c.n_state),
            m + "D": (e,),
            m + "in_proj.weight": (2 * e, w),
            m + "conv1d.weight": (e, 1, c.k),
            m + "conv1d.bias": (e,),
            m + "x_proj.weight": (c.dt_rank + 2 * c.n_state, e),
            m + "dt_proj.weight": (e, c.dt_rank),
            m + "dt_proj.bias": (e,),
            m + "out_proj.weight": (w, e),
        })
    g = torch.Generator().manual_seed(seed)
    sd = {}
    for name, shape in sorted(shapes.items()):
        sd[name] = torch.randn(shape, generator=g) * (0.6 if len(shape) > 1 else 0.3) + (1.0 if "norm" in name else 0.0)
    return sd


def main():
    c = Cfg()
    net = Net(c)
    net.load_state_dict(convert(checkpoint(c), c))
    optim = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.05, foreach=True)
    for it in range(3):
        gen = torch.Generator().manual_seed(100 + it)
        ids = torch.randint(0, c.vocab, (6, 11), generator=gen)
        target = ids.sum(1) % c.n_class
        optim.zero_grad(set_to_none=True)
        logp = F.log_softmax(net(ids), dim=-1)
        loss = -logp.gather(1, target[:, None]).mean()
        loss.backward()
        optim.step()
        print(f"step {it}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
