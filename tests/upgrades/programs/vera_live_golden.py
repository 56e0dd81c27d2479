"""The sentence pair classifier itself, called with weights into which VeRA vectors are merged at every step."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

RANKS = {"query": 8, "value": 8, "up": 6, "down": 6}


class CrossBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)

    def split(self, x):
        b, t, d = x.shape
        return x.reshape(b, t, self.heads, d // self.heads).permute(0, 2, 1, 3)

    def forward(self, x, other):
        q, k, v = self.split(self.query(x)), self.split(self.key(other)), self.split(self.value(other))
        attended = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1) @ v
        x = self.norm1(x + attended.permute(0, 2, 1, 3).reshape(x.shape))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class PairClassifier(nn.Module):
    def __init__(self, vocab=60, dim=24, heads=3, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList([CrossBlock(dim, heads), CrossBlock(dim, heads)])
        self.head = nn.Linear(dim, classes)

    def forward(self, premise, hypothesis):
        x, y = self.embed(premise), self.embed(hypothesis)
        for block in self.blocks:
            x = block(x, y)
        return self.head(x.mean(dim=1))


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = PairClassifier().requires_grad_(False)
        self.register_buffer("vera_a", torch.randn(8, 48) / 5)
        self.register_buffer("vera_b", torch.randn(48, 8) / 3)
        self.vera = nn.ParameterDict()
        for name, module in self.model.named_modules():
            rank = RANKS.get(name.rpartition(".")[2])
            if rank:
                key = name.replace(".", "-")
                self.vera[f"{key}_d"] = nn.Parameter(0.5 + 0.1 * torch.randn(rank))
                self.vera[f"{key}_b"] = nn.Parameter(0.3 * torch.randn(module.out_features))

    def merged(self):
        weights = dict(self.model.named_parameters())
        for key in {name[:-2] for name in self.vera}:
            d, b = self.vera[f"{key}_d"], self.vera[f"{key}_b"]
            name = key.replace("-", ".") + ".weight"
            rows, columns = weights[name].shape
            delta = torch.diag(b) @ self.vera_b[:rows, : len(d)] @ torch.diag(d) @ self.vera_a[: len(d), :columns]
            weights[name] = weights[name] + delta
        return weights

    def forward(self, premise, hypothesis):
        return functional_call(self.model, self.merged(), (premise, hypothesis))


def build():
    torch.manual_seed(0)
    return Adapted()


def pairs(step):
    g = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, 60, (2, 8, 10), generator=g)
    return tokens[0], tokens[1, :, :7], torch.randint(0, 3, (8,), generator=g)


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    head = model.model.head.requires_grad_(True)
    vectors = torch.optim.AdamW(model.vera.parameters(), lr=2e-2, weight_decay=0, eps=1e-6)
    other = torch.optim.AdamW(head.parameters(), lr=1e-3, weight_decay=0.1, eps=1e-6)
    for step in range(3):
        premise, hypothesis, label = pairs(step)
        loss = F.cross_entropy(model(premise, hypothesis), label)
        model.zero_grad()
        loss.backward()
        vectors.step()
        other.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
