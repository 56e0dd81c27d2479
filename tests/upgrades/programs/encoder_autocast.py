"""Own encoder in float32 against autocast."""

import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(200)


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, keep):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(d // self.h)
        low = torch.finfo(s.dtype).min
        m = torch.zeros(b, 1, t, t, dtype=s.dtype).masked_fill(~keep[:, None, None, :], low)
        w = F.softmax(s + m, dim=-1, dtype=torch.float32).to(v.dtype)
        return self.out((w @ v).transpose(1, 2).reshape(b, t, d))


class Encoder(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(40, d)
        self.att = nn.ModuleList(Attention(d, 4) for _ in range(2))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d)) for _ in range(2))
        self.n1 = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.n2 = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.head = nn.Linear(d, 4)

    def forward(self, ids):
        keep = ids > 0
        x = self.emb(ids)
        for i in range(2):
            x = x + self.att[i](self.n1[i](x), keep)
            x = x + self.mlp[i](self.n2[i](x))
        pooled = (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
        return self.head(pooled)


net = Encoder()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
g = torch.Generator().manual_seed(3)
for step in range(3):
    ids = torch.randint(1, 40, (4, 8), generator=g)
    ids[0, 5:] = 0
    y = torch.randint(0, 4, (4,), generator=g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(ids)
    loss = F.cross_entropy(logits.float(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
