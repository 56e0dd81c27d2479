"""A retentive network: scores that decay with the distance, without a softmax."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Retention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)
        self.norm = nn.GroupNorm(heads, width, eps=1e-5)
        self.out = nn.Linear(width, width, bias=False)
        self.register_buffer("decay", 1 - 2.0 ** (-2.0 - torch.arange(heads)))

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def retained(self, q, k, v):
        time = torch.arange(q.shape[2])
        distance = time[:, None] - time[None, :]
        power = self.decay[:, None, None] ** distance.clamp(min=0)
        power = (power * (distance >= 0)).to(q.dtype)
        scores = torch.matmul(q, k.transpose(2, 3)) * power
        return torch.matmul(scores, v)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        mixed = self.retained(q, k * self.scale, v)
        mixed = mixed.transpose(1, 2).flatten(2)
        mixed = self.norm(mixed.flatten(0, 1)).view_as(mixed)
        return self.out(F.silu(self.gate(x)) * mixed)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.retention = Retention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.retention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Retentive(nn.Module):
    def __init__(self, words=50, width=24, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, words):
        x = self.embed(words) * self.embed.embedding_dim**0.5
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embed.weight)
