"""SDPA with a boolean mask against explicit softmax with a finfo.min additive mask."""

import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)


class CausalSelfAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x, pad):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(D // self.h)
        bias = torch.full((T, T), torch.finfo(x.dtype).min).triu(1)
        bias = bias + pad[:, None, None, :] * -1e9
        y = torch.softmax(scores + bias.clamp(min=torch.finfo(x.dtype).min), -1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, D))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 32)
        self.att = nn.ModuleList(CausalSelfAttention() for _ in range(2))
        self.ln = nn.ModuleList(nn.LayerNorm(32) for _ in range(2))
        self.head = nn.Linear(32, 50)

    def forward(self, ids):
        pad = ids == 0
        x = self.emb(ids)
        for ln, att in zip(self.ln, self.att):
            x = x + att(ln(x), pad)
        return self.head(x)


model = LM()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
g = torch.Generator().manual_seed(4)
for it in range(3):
    ids = torch.randint(1, 50, (3, 9), generator=g)
    ids[2, 6:] = 0
    out = model(ids)
    loss = F.cross_entropy(out[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("iter", it, f"{loss.item():.9f}")
