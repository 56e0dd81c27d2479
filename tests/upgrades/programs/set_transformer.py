"""Set Transformer (ISAB encoder, PMA decoder) with attention written with einsum, on sets of unequal size."""

import math

import torch
from torch import nn


class MultiheadBlock(nn.Module):
    """MAB(X, Y) = LN(H + FF(H)), H = LN(X + Attention(X, Y, Y))"""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.w_q = nn.Parameter(torch.empty(heads, dim, dim // heads))
        self.w_k = nn.Parameter(torch.empty(heads, dim, dim // heads))
        self.w_v = nn.Parameter(torch.empty(heads, dim, dim // heads))
        self.b_q = nn.Parameter(torch.empty(heads, dim // heads))
        self.b_k = nn.Parameter(torch.empty(heads, dim // heads))
        self.b_v = nn.Parameter(torch.empty(heads, dim // heads))
        self.w_o = nn.Parameter(torch.empty(heads, dim // heads, dim))
        self.b_o = nn.Parameter(torch.empty(dim))
        self.ln0 = nn.LayerNorm(dim)
        self.ln1 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, y, present=None):
        q = torch.einsum("bnd,hdk->bhnk", x, self.w_q) + self.b_q[:, None]
        k = torch.einsum("bmd,hdk->bhmk", y, self.w_k) + self.b_k[:, None]
        v = torch.einsum("bmd,hdk->bhmk", y, self.w_v) + self.b_v[:, None]
        scores = torch.einsum("bhnk,bhmk->bhnm", q, k) / math.sqrt(q.shape[-1])
        if present is not None:
            scores = scores.masked_fill(~present[:, None, None, :], float("-inf"))
        mixed = torch.einsum("bhnm,bhmk->bhnk", scores.softmax(dim=-1), v)
        h = self.ln0(x + torch.einsum("bhnk,hkd->bnd", mixed, self.w_o) + self.b_o)
        return self.ln1(h + self.ff(h))


class InducedBlock(nn.Module):
    def __init__(self, dim, heads, points):
        super().__init__()
        self.points = nn.Parameter(torch.empty(points, dim))
        self.gather = MultiheadBlock(dim, heads)
        self.scatter = MultiheadBlock(dim, heads)

    def forward(self, x, present):
        points = self.points.expand(x.shape[0], -1, -1)
        summary = self.gather(points, x, present)
        return self.scatter(x, summary)


class SetTransformer(nn.Module):
    def __init__(self, features=3, dim=24, heads=4, points=6, seeds=2, classes=5):
        super().__init__()
        self.embed = nn.Linear(features, dim)
        self.blocks = nn.ModuleList(InducedBlock(dim, heads, points) for _ in range(2))
        self.seeds = nn.Parameter(torch.empty(seeds, dim))
        self.pool = MultiheadBlock(dim, heads)
        self.mix = MultiheadBlock(dim, heads)
        self.head = nn.Linear(seeds * dim, classes)

    def forward(self, x, present):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h, present)
        pooled = self.pool(self.seeds.expand(x.shape[0], -1, -1), h, present)
        pooled = self.mix(pooled, pooled)
        return self.head(pooled.flatten(1))


def convert(old, heads=4):
    """nn.MultiheadAttention keeps q, k and v in one matrix [3 dim, dim]; here each has an axis of heads."""
    new = {}
    for name, value in old.items():
        stem, _, last = name.rpartition(".")
        if last == "in_proj_weight":
            for letter, part in zip("qkv", value.chunk(3)):
                new[f"{stem.removesuffix('.attn')}.w_{letter}"] = part.t().unflatten(1, (heads, -1)).transpose(0, 1)
        elif last == "in_proj_bias":
            for letter, part in zip("qkv", value.chunk(3)):
                new[f"{stem.removesuffix('.attn')}.b_{letter}"] = part.unflatten(0, (heads, -1))
        elif name.endswith("out_proj.weight"):
            new[name.replace("attn.out_proj.weight", "w_o")] = value.t().unflatten(0, (heads, -1))
        elif name.endswith("out_proj.bias"):
            new[name.replace("attn.out_proj.bias", "b_o")] = value
        else:
            new[name] = value
    return new


def sample(seed, batch=8, largest=11):
    g = torch.Generator().manual_seed(100 + seed)
    x = torch.randn(batch, largest, 3, generator=g)
    sizes = torch.randint(4, largest + 1, (batch,), generator=g)
    present = torch.arange(largest) < sizes[:, None]
    target = (x[..., 0].masked_fill(~present, -9).amax(1) * 2).long().clamp(0, 4)
    return x, present, target


def main():
    model = SetTransformer()
    model.load_state_dict(convert(torch.load("weights.pt")))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        x, present, target = sample(step)
        loss = nn.functional.cross_entropy(model(x, present), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
