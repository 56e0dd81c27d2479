"""Grouped-query transformer with a sliding window: every token from the full prefix again."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, KV, LAYERS, WINDOW = 29, 16, 4, 2, 2, 5
HEAD = DIM // HEADS


def rotate(x, positions):
    """x: (batch, heads, time, head)"""
    half = HEAD // 2
    freq = 1.0 / (100.0 ** (torch.arange(half) / half))
    angle = positions[:, None] * freq
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, HEADS * HEAD, bias=False)
        self.k = nn.Linear(DIM, KV * HEAD, bias=False)
        self.v = nn.Linear(DIM, KV * HEAD, bias=False)
        self.o = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        pos = torch.arange(t)
        q = rotate(self.q(x).view(b, t, HEADS, HEAD).transpose(1, 2), pos)
        k = rotate(self.k(x).view(b, t, KV, HEAD).transpose(1, 2), pos)
        v = self.v(x).view(b, t, KV, HEAD).transpose(1, 2)
        k, v = (y.repeat_interleave(HEADS // KV, dim=1) for y in (k, v))
        dist = pos[:, None] - pos[None, :]
        allowed = (dist >= 0) & (dist < WINDOW)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(HEAD)).masked_fill(~allowed, float("-inf"))
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, DIM)
        return self.o(out)


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, 32, bias=False)
        self.up = nn.Linear(DIM, 32, bias=False)
        self.down = nn.Linear(32, DIM, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.attn = nn.RMSNorm(DIM, eps=1e-6), Attention()
        self.ln2, self.mlp = nn.RMSNorm(DIM, eps=1e-6), SwiGLU()

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM, eps=1e-6)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed.weight)  # tied


def init(model):
    g = torch.Generator().manual_seed(77)
    for p in model.parameters():
        scale = 0.3 if p.dim() == 1 else 2.0 / math.sqrt(p.shape[1])
        p.data = torch.randn(p.shape, generator=g) * scale + (1.0 if p.dim() == 1 else 0.0)


@torch.no_grad()
def main():
    model = LM()
    init(model)
    prompts = torch.randint(0, VOCAB, (2, 9), generator=torch.Generator().manual_seed(1))
    ids, score = prompts, torch.zeros(2)
    for _ in range(10):
        logp = model(ids)[:, -1].log_softmax(-1)
        best, token = logp.max(-1)
        score = score + best
        ids = torch.cat([ids, token[:, None]], dim=1)
        print(f"token log-prob {best[0].item():.9f} {best[1].item():.9f}")
    print(f"scores {score[0].item():.9f} {score[1].item():.9f}")
    print("texts", ids.tolist())


if __name__ == "__main__":
    main()
