"""Set Transformer (ISAB encoder, PMA decoder) on nn.MultiheadAttention, on sets of unequal size."""

import torch
import torch.nn.functional as F
from torch import nn


class MAB(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        nn.init.normal_(self.attn.in_proj_bias, std=0.1)
        nn.init.normal_(self.attn.out_proj.bias, std=0.1)
        self.ln0 = nn.LayerNorm(dim)
        self.ln1 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, y, absent=None):
        h = self.ln0(x + self.attn(x, y, y, key_padding_mask=absent, need_weights=False)[0])
        return self.ln1(h + self.ff(h))


class ISAB(nn.Module):
    def __init__(self, dim, heads, points):
        super().__init__()
        self.points = nn.Parameter(torch.randn(points, dim))
        self.gather = MAB(dim, heads)
        self.scatter = MAB(dim, heads)

    def forward(self, x, absent):
        return self.scatter(x, self.gather(self.points.repeat(x.size(0), 1, 1), x, absent))


class SetNet(nn.Module):
    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.embed = nn.Linear(3, dim)
        self.blocks = nn.ModuleList([ISAB(dim, heads, 6), ISAB(dim, heads, 6)])
        self.seeds = nn.Parameter(torch.randn(2, dim))
        self.pool = MAB(dim, heads)
        self.mix = MAB(dim, heads)
        self.head = nn.Linear(2 * dim, 5)

    def forward(self, x, sizes):
        absent = torch.arange(x.size(1)).unsqueeze(0) >= sizes.unsqueeze(1)
        h = self.embed(x)
        for block in self.blocks:
            h = block(h, absent)
        pooled = self.pool(self.seeds.repeat(x.size(0), 1, 1), h, absent)
        return self.head(self.mix(pooled, pooled).reshape(x.size(0), -1))


def build():
    torch.manual_seed(0)
    return SetNet()


def sample(seed, batch=8, largest=11):
    g = torch.Generator().manual_seed(100 + seed)
    x = torch.randn(batch, largest, 3, generator=g)
    sizes = torch.randint(4, largest + 1, (batch,), generator=g)
    target = []
    for row, size in zip(x, sizes.tolist()):
        target.append(int((row[:size, 0].max() * 2).long().clamp(0, 4)))
    return x, sizes, torch.tensor(target)


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        x, sizes, target = sample(step)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, sizes), target)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
