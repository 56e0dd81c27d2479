"""Retention in the place of attention."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(37)


class Retention(nn.Module):
    def __init__(self, d=16, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(d, d, bias=False) for _ in range(5))
        self.register_buffer("gamma", 1 - 2.0 ** (-2 - torch.arange(heads).float()))
        self.norm = nn.GroupNorm(heads, d)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (f(x).view(B, T, self.heads, -1) for f in (self.q, self.k, self.v))
        k = k * (D // self.heads) ** -0.5
        n = torch.arange(T)
        gap = (n[:, None] - n[None, :]).float()
        decay = torch.where(gap >= 0, self.gamma[:, None, None] ** gap.clamp(min=0), torch.zeros(()))
        y = torch.einsum("bihd,bjhd,hij,bjhe->bihe", q, k, decay, v)
        y = self.norm(y.reshape(B * T, D)).view(B, T, D)
        return self.o(F.silu(self.g(x)) * y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 16)
        self.ln = nn.LayerNorm(16)
        self.ret = Retention()
        self.head = nn.Linear(16, 40)

    def forward(self, ids):
        x = self.emb(ids)
        x = x + self.ret(self.ln(x))
        return self.head(x)


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 1.0 / (s + 1))
g = torch.Generator().manual_seed(38)
for step in range(3):
    ids = torch.randint(0, 40, (2, 9), generator=g)
    out = net(ids[:, :-1])
    loss = F.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    print(f"{step} {loss.item():.9f}")
