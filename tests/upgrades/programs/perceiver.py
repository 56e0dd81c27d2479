"""A perceiver: cross attention of few latents to many inputs."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(15)


class Attend(nn.Module):
    def __init__(self, dq, dkv, heads=2, dim=16):
        super().__init__()
        self.heads = heads
        self.nq, self.nk = nn.LayerNorm(dq), nn.LayerNorm(dkv)
        self.q = nn.Linear(dq, dim, bias=False)
        self.kv = nn.Linear(dkv, 2 * dim, bias=False)
        self.o = nn.Linear(dim, dq)

    def forward(self, x, ctx):
        x, ctx = self.nq(x), self.nk(ctx)
        q = self.q(x)
        k, v = self.kv(ctx).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.o(y.transpose(1, 2).flatten(2))


class Feed(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n, self.a, self.b = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        u, g = self.a(self.n(x)).chunk(2, -1)
        return self.b(u * F.gelu(g))


class Perceiver(nn.Module):
    def __init__(self, d=16, n=4, rounds=2):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(n, d) * 0.5)
        self.cross, self.cross_ff = Attend(d, 7), Feed(d)
        self.inner, self.inner_ff = Attend(d, d), Feed(d)
        self.rounds = rounds
        self.head = nn.Linear(d, 3)

    def forward(self, data):
        z = self.latents.expand(len(data), -1, -1)
        for _ in range(self.rounds):
            z = z + self.cross(z, data)
            z = z + self.cross_ff(z)
            z = z + self.inner(z, z)
            z = z + self.inner_ff(z)
        return self.head(z.mean(1))


def positions(n):
    t = torch.linspace(-1, 1, n)
    return torch.stack([t, torch.sin(3 * t), torch.cos(3 * t)], -1)


net = Perceiver()
opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.05)
g = torch.Generator().manual_seed(16)
for step in range(3):
    sig = torch.randn(4, 10, 4, generator=g)
    x = torch.cat([sig, positions(10).expand(4, -1, -1)], -1)
    y = torch.randint(0, 3, (4,), generator=g)
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(f"step {step} loss {loss.item():.9f}")
