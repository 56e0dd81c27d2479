import math

import numpy as np
import torch
import torch.nn as nn

# Flow with index splits: only the moved half is computed; scale and shift nets are one grouped net.


def param(name, *shape):
    seed = sum(ord(c) * (i + 1) for i, c in enumerate(name))
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.from_numpy(values) * 0.3


class PairNet(nn.Module):
    """Two small nets (scale, shift) evaluated side by side."""

    def __init__(self, layer, dim, hidden, cond, moved):
        super().__init__()
        first = [param(f"{k}{layer}w1", hidden, dim)[:, cond] for k in "st"]
        second = [param(f"{k}{layer}w2", dim, hidden)[moved] for k in "st"]
        self.w1 = nn.Parameter(torch.stack(first))
        self.b1 = nn.Parameter(torch.stack([param(f"{k}{layer}b1", hidden) for k in "st"]))
        self.w2 = nn.Parameter(torch.stack(second))
        self.b2 = nn.Parameter(torch.stack([param(f"{k}{layer}b2", dim)[moved] for k in "st"]))

    def forward(self, x):
        h = torch.tanh(torch.einsum("bi,ghi->gbh", x, self.w1) + self.b1[:, None])
        out = torch.einsum("gbh,goh->gbo", h, self.w2) + self.b2[:, None]
        return torch.tanh(out[0]), out[1]


class Step(nn.Module):
    """Normalisation and coupling in one step."""

    def __init__(self, layer, dim, hidden):
        super().__init__()
        order = torch.arange(dim)
        self.cond = order[(order + layer) % 2 == 0]
        self.moved = order[(order + layer) % 2 == 1]
        self.loc = nn.Parameter(param(f"loc{layer}", dim))
        self.log_scale = nn.Parameter(param(f"ls{layer}", dim))
        self.net = PairNet(layer, dim, hidden, self.cond, self.moved)

    def forward(self, x, logdet):
        x = (x + self.loc) * torch.exp(self.log_scale)
        a, b = x[:, self.cond], x[:, self.moved]
        s, t = self.net(a)
        y = torch.empty_like(x)
        y[:, self.cond] = a
        y[:, self.moved] = torch.addcmul(t, b, s.exp())
        return y, logdet + s.sum(1) + self.log_scale.sum()

    def reverse(self, y):
        a = y[:, self.cond]
        s, t = self.net(a)
        x = y.clone()
        x[:, self.moved] = (y[:, self.moved] - t) / s.exp()
        return x / self.log_scale.exp() - self.loc


class Flow(nn.Module):
    def __init__(self, dim=6, hidden=16, layers=4):
        super().__init__()
        self.steps = nn.ModuleList(Step(i, dim, hidden) for i in range(layers))

    def forward(self, x):
        logdet = x.new_zeros(len(x))
        for step in self.steps:
            x, logdet = step(x, logdet)
        logp = -0.5 * (x.square() + math.log(2 * math.pi)).sum(1)
        return logp + logdet

    def sample(self, z):
        for step in list(self.steps)[::-1]:
            z = step.reverse(z)
        return z


class TinyAdam:
    def __init__(self, params, lr, beta1=0.9, beta2=0.98, eps=1e-8):
        self.params = list(params)
        self.lr, self.beta1, self.beta2, self.eps = lr, beta1, beta2, eps
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p, m, v in zip(self.params, self.m, self.v):
            m += (1 - self.beta1) * (p.grad - m)
            v += (1 - self.beta2) * (p.grad**2 - v)
            mhat = m / (1 - self.beta1**self.t)
            vhat = v / (1 - self.beta2**self.t)
            p -= self.lr * mhat / (vhat.sqrt() + self.eps)
            p.grad = None


def batch(seed, n=32, dim=6):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * math.pi, (n, dim // 2))
    clean = np.hstack([np.cos(angle), np.sin(angle)])
    return torch.from_numpy((clean + 0.1 * rng.standard_normal((n, dim))).astype(np.float32))


def main():
    flow = Flow()
    adam = TinyAdam(flow.parameters(), lr=5e-3)
    for i in range(3):
        nll = -flow(batch(900 + i)).mean()
        nll.backward()
        adam.step()
        print(f"step {i}: nll {nll.item():.9f}")
    z = torch.tensor(np.random.default_rng(5).standard_normal((4, 6)), dtype=torch.float32)
    with torch.no_grad():
        x = flow.sample(z)
    print(f"samples: mean {x.mean().item():.9f} std {x.std().item():.9f}")


if __name__ == "__main__":
    main()
