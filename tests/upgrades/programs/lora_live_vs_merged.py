"""Own LoRA live against merged weights."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(300)


class Block(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 64), nn.Linear(64, d)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.o(F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h), is_causal=True))
        return x + self.down(F.gelu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 32)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(32, 50)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.head(x)


RANK, ALPHA = 4, 8
g = torch.Generator().manual_seed(301)
AB = {}
for i in range(2):
    for n, (rows, cols) in {"q": (32, 32), "v": (32, 32), "up": (64, 32)}.items():
        AB[f"blocks.{i}.{n}"] = (torch.randn(RANK, cols, generator=g) * 0.2, torch.randn(rows, RANK, generator=g) * 0.3)

net = Net()
with torch.no_grad():
    for name, (a, b) in AB.items():
        net.get_submodule(name).weight += ALPHA / RANK * b @ a
net.eval()
with torch.no_grad():
    for step in range(3):
        ids = torch.randint(0, 50, (2, 9), generator=g)
        y = net(ids)
        print(f"{step} {y.mean().item():.9f} {y.std().item():.9f} {y[0, -1, 7].item():.9f}")
