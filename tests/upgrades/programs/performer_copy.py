# Causal linear attention (positive random features, as in Performer) on a delayed copy task.
import math

import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freq", 100.0 ** (-torch.arange(0, dim, 2) / dim))

    def forward(self, x):
        t = torch.arange(x.size(-2))[:, None] * self.freq
        cos, sin = t.cos(), t.sin()
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class FavorAttention(nn.Module):
    def __init__(self, dim, heads, features):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.rot = Rotary(self.dh)
        blocks = [torch.linalg.qr(torch.randn(self.dh, self.dh))[0] for _ in range(features // self.dh)]
        self.register_buffer("proj", torch.cat(blocks, dim=1) * math.sqrt(self.dh))
        self.m = features

    def phi(self, x):
        x = x * self.dh**-0.25
        sq = 0.5 * x.pow(2).sum(-1, keepdim=True)
        z = x @ self.proj - sq
        return torch.exp(z - z.detach().amax(dim=(-1, -2), keepdim=True)) / math.sqrt(self.m) + 1e-4

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.dh).permute(2, 0, 3, 1, 4)
        q, k = self.phi(self.rot(q)), self.phi(self.rot(k))
        kv = torch.einsum("bhtm,bhtd->bhtmd", k, v).cumsum(dim=2)
        num = torch.einsum("bhtm,bhtmd->bhtd", q, kv)
        den = (q * k.cumsum(dim=2)).sum(-1, keepdim=True)
        y = num / den
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class GEGLU(nn.Module):
    def __init__(self, dim, mult=2):
        super().__init__()
        self.up = nn.Linear(dim, 2 * mult * dim)
        self.down = nn.Linear(mult * dim, dim)

    def forward(self, x):
        val, gate = self.up(x).chunk(2, dim=-1)
        return self.down(val * nn.functional.gelu(gate))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = FavorAttention(dim, 4, 16)
        self.ff = GEGLU(dim)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class Performer(nn.Module):
    def __init__(self, vocab=17, dim=32, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.Sequential(*[Block(dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, tok):
        h = self.norm(self.layers(self.emb(tok) * 0.5))
        return h @ self.emb.weight.t() / math.sqrt(h.size(-1))


def copy_batch(g, n=6, half=8, vocab=17):
    src = torch.randint(1, vocab, (n, half), generator=g)
    seq = torch.cat([src, torch.zeros(n, 1, dtype=torch.long), src], dim=1)
    weight = torch.cat([torch.full((n, half), 0.1), torch.ones(n, half)], dim=1)
    return seq[:, :-1], seq[:, 1:], weight


def main():
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(2)
    net = Performer()
    decay = [p for p in net.parameters() if p.dim() > 1]
    rest = [p for p in net.parameters() if p.dim() <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=5e-3)
    for step in range(1, 4):
        x, y, w = copy_batch(g)
        logp = net(x).log_softmax(-1)
        nll = -logp.gather(-1, y.unsqueeze(-1)).squeeze(-1)
        loss = (nll * w).sum() / w.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.9f}")


main()
