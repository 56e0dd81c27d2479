"""FT-Transformer on tabular rows in float32 with clipped gradients."""

import torch
import torch.nn.functional as F
from torch import nn


class FeatureTokenizer(nn.Module):
    def __init__(self, numeric, categories, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(numeric, dim))
        self.bias = nn.Parameter(torch.empty(numeric + len(categories), dim))
        self.tables = nn.ModuleList(nn.Embedding(n, dim) for n in categories)
        self.cls = nn.Parameter(torch.empty(dim))

    def forward(self, numeric, categorical):
        tokens = [numeric.unsqueeze(-1) * self.weight]
        tokens += [table(column).unsqueeze(1) for table, column in zip(self.tables, categorical.unbind(1))]
        tokens = torch.cat(tokens, dim=1) + self.bias
        return torch.cat([self.cls.expand(len(tokens), 1, -1), tokens], dim=1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1)
        return self.out((weights.to(v.dtype) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.ff1 = nn.Linear(dim, 4 * dim)
        self.ff2 = nn.Linear(2 * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        value, gate = self.ff1(self.norm2(x)).chunk(2, dim=-1)
        return x + self.ff2(value * F.relu(gate))


class FTTransformer(nn.Module):
    def __init__(self, numeric=6, categories=(4, 7), dim=32, heads=4, depth=2):
        super().__init__()
        self.tokenizer = FeatureTokenizer(numeric, categories, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, numeric, categorical):
        x = self.tokenizer(numeric, categorical)
        for block in self.blocks:
            x = block(x)
        return self.head(F.relu(self.norm(x[:, 0]))).squeeze(-1)


def houses(step, size=16):
    g = torch.Generator().manual_seed(step)
    numeric = torch.randn(size, 6, generator=g)
    categorical = torch.stack([torch.randint(0, n, (size,), generator=g) for n in (4, 7)], dim=1)
    price = 3 + numeric[:, 0] - numeric[:, 1] * numeric[:, 2] + 0.3 * categorical[:, 1]
    return numeric, categorical, price


def build():
    torch.manual_seed(0)
    model = FTTransformer()
    for p in (model.tokenizer.weight, model.tokenizer.bias, model.tokenizer.cls):
        nn.init.normal_(p, std=0.5)
    return model


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(3):
        numeric, categorical, price = houses(step)
        loss = F.mse_loss(model(numeric, categorical), price)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
