"""Fine-tuning of a sentence pair classifier with live VeRA adapters (shared random matrices, trained vectors)."""

import torch
import torch.nn.functional as F
from torch import nn


class VeraLinear(nn.Module):
    """The shared matrices are as wide as the largest layer and rank; each layer takes its part of them."""

    def __init__(self, n_in, n_out, rank, shared):
        super().__init__()
        self.base = nn.Linear(n_in, n_out)
        self.base.requires_grad_(False)
        self.rank = rank
        self.shared = shared
        self.d = nn.Parameter(torch.empty(rank))
        self.b = nn.Parameter(torch.empty(n_out))

    def forward(self, x):
        a, b = self.shared
        a = a[: self.rank, : self.base.in_features]
        b = b[: self.base.out_features, : self.rank]
        return self.base(x) + self.b * F.linear(self.d * F.linear(x, a), b)


class CrossBlock(nn.Module):
    def __init__(self, dim, heads, shared):
        super().__init__()
        self.heads = heads
        self.query = VeraLinear(dim, dim, 8, shared)
        self.key = nn.Linear(dim, dim)
        self.value = VeraLinear(dim, dim, 8, shared)
        self.up = VeraLinear(dim, 2 * dim, 6, shared)
        self.down = VeraLinear(2 * dim, dim, 6, shared)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x, other):
        q, k, v = (
            p.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for p in (self.query(x), self.key(other), self.value(other))
        )
        x = self.norm1(x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class PairClassifier(nn.Module):
    def __init__(self, shared, vocab=60, dim=24, heads=3, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(CrossBlock(dim, heads, shared) for _ in range(2))
        self.head = nn.Linear(dim, classes)

    def forward(self, premise, hypothesis):
        x, y = self.embed(premise), self.embed(hypothesis)
        for block in self.blocks:
            x = block(x, y)
        return self.head(x.mean(dim=1))


def load():
    saved = torch.load("weights.pt")
    shared = (saved.pop("vera_a"), saved.pop("vera_b"))
    model = PairClassifier(shared).requires_grad_(False)
    state = {}
    for name, value in saved.items():
        kind, _, path = name.partition(".")
        if kind == "vera":
            layer, _, vector = path.rpartition("_")
            state[f"{layer.replace('-', '.')}.{vector}"] = value
        else:
            module, _, leaf = path.rpartition(".")
            adapted = isinstance(model.get_submodule(module), VeraLinear)
            state[f"{module}.base.{leaf}" if adapted else path] = value
    model.load_state_dict(state)
    return model


def pairs(step):
    g = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, 60, (2, 8, 10), generator=g)
    return tokens[0], tokens[1, :, :7], torch.randint(0, 3, (8,), generator=g)


def main():
    model = load()
    scales, gates = [], []
    for module in model.modules():
        if isinstance(module, VeraLinear):
            scales.append(module.d.requires_grad_())
            gates.append(module.b.requires_grad_())
    head = list(model.head.requires_grad_().parameters())
    groups = [
        {"params": scales, "lr": 2e-2, "weight_decay": 0.0},
        {"params": gates, "lr": 2e-2, "weight_decay": 0.0},
        {"params": head, "lr": 1e-3, "weight_decay": 0.1},
    ]
    optimizer = torch.optim.AdamW(groups, eps=1e-6)
    for step in range(3):
        premise, hypothesis, label = pairs(step)
        loss = F.cross_entropy(model(premise, hypothesis), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
