"""Deep & cross ranker over tabular features, trained with the Plackett-Luce (ListMLE) loss."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    n_dense: int = 6
    n_tags: int = 20
    n_shop: int = 9
    dim: int = 8
    depth: int = 2
    list_len: int = 7
    queries: int = 5


class CrossLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def forward(self, x0, x):
        return x0 * self.lin(x) + x


class Ranker(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        width = cfg.n_dense + 2 * cfg.dim
        self.tags = nn.EmbeddingBag(cfg.n_tags, cfg.dim, mode="mean", padding_idx=0)
        self.shop = nn.Embedding(cfg.n_shop, cfg.dim)
        self.crosses = nn.ModuleList(CrossLayer(width) for _ in range(cfg.depth))
        self.deep = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.out = nn.Linear(width + 16, 1)

    def forward(self, dense, tags, shop):
        q, n, t = tags.shape
        bag = self.tags(tags.reshape(q * n, t)).reshape(q, n, -1)
        x0 = torch.cat([dense, bag, self.shop(shop)], dim=-1)
        x = x0
        for layer in self.crosses:
            x = layer(x0, x)
        return self.out(torch.cat([x, self.deep(x0)], dim=-1)).squeeze(-1)


def listmle(scores, relevance):
    total = scores.new_zeros(())
    for s, r in zip(scores, relevance):
        s = s[torch.argsort(r, descending=True, stable=True)]
        for i in range(len(s)):
            total = total + torch.logsumexp(s[i:], dim=0) - s[i]
    return total / len(scores)


def batch(cfg, seed):
    g = torch.Generator().manual_seed(seed)
    dense = torch.randn(cfg.queries, cfg.list_len, cfg.n_dense, generator=g)
    tags = torch.randint(0, cfg.n_tags, (cfg.queries, cfg.list_len, 4), generator=g)
    tags[..., 0] = tags[..., 0].clamp(min=1)
    shop = torch.randint(0, cfg.n_shop, (cfg.queries, cfg.list_len), generator=g)
    rel = torch.rand(cfg.queries, cfg.list_len, generator=g)
    return dense, tags, shop, rel


def build():
    return Ranker(Config())


def main():
    cfg = Config()
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step in range(3):
        dense, tags, shop, rel = batch(cfg, step)
        loss = listmle(model(dense, tags, shop), rel)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
