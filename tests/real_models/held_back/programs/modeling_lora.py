"""A frozen encoder with low-rank adapters and a bottleneck adapter."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoraLinear(nn.Module):
    def __init__(self, inner, outer, rank=4, alpha=8):
        super().__init__()
        self.base = nn.Linear(inner, outer)
        self.base.requires_grad_(False)
        self.lora_a = nn.Linear(inner, rank, bias=False)
        self.lora_b = nn.Linear(rank, outer, bias=False)
        self.drop = nn.Dropout(0.1)
        self.scaling = alpha / rank

    def forward(self, x):
        result = self.base(x)
        update = self.lora_b(self.lora_a(self.drop(x)))
        return result + update * self.scaling


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = LoraLinear(width, width)
        self.key = nn.Linear(width, width)
        self.value = LoraLinear(width, width)
        self.out = nn.Linear(width, width)
        self.key.requires_grad_(False)
        self.out.requires_grad_(False)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, hidden):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(hidden[:, None, None, :], -1e4)
        weights = F.softmax(scores, dim=-1)
        context = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.out(context)


class Adapter(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.down = nn.Linear(width, inner)
        self.up = nn.Linear(inner, width)

    def forward(self, x):
        return x + self.up(F.gelu(self.down(x)))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.mlp.requires_grad_(False)
        self.adapter = Adapter(width, 8)

    def forward(self, x, hidden):
        x = x + self.attention(self.norm1(x), hidden)
        return x + self.adapter(self.mlp(self.norm2(x)))


class Tuned(nn.Module):
    def __init__(self, width=32, heads=4, vocabulary=64, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.embed.requires_grad_(False)
        self.prompt = nn.Parameter(torch.zeros(3, width))
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, text, hidden):
        x = self.embed(text)
        prompt = self.prompt.expand(x.shape[0], -1, -1)
        x = torch.cat([prompt, x], dim=1)
        hidden = F.pad(hidden, (3, 0), value=False)
        for layer in self.layers:
            x = layer(x, hidden)
        kept = (~hidden).to(x.dtype).unsqueeze(-1)
        x = self.norm(x)
        pooled = (x * kept).sum(dim=1) / kept.sum(dim=1)
        return self.head(pooled)
