"""Sentence encoder (float32) and similarity search."""

import torch
import torch.nn as nn
import torch.nn.functional as F

V, D, H = 60, 32, 4


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mha = nn.MultiheadAttention(D, H, batch_first=True)
        self.norm1 = nn.LayerNorm(D)
        self.fc1 = nn.Linear(D, 64)
        self.fc2 = nn.Linear(64, D)
        self.norm2 = nn.LayerNorm(D)

    def forward(self, x, pad):
        a, _ = self.mha(x, x, x, key_padding_mask=pad, need_weights=False)
        x = self.norm1(x + a)
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class SentenceEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(V, D)
        self.pos = nn.Embedding(16, D)
        self.layers = nn.ModuleList([EncoderLayer(), EncoderLayer()])
        self.proj = nn.Linear(D, 24)

    def forward(self, ids):
        pad = ids == 0
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, pad)
        keep = (~pad).float().unsqueeze(-1)
        mean = (x * keep).sum(1) / keep.sum(1)
        return F.normalize(torch.tanh(self.proj(mean)), dim=-1)


def seed_weights(model):
    g = torch.Generator().manual_seed(31)
    for _, p in sorted(model.named_parameters()):
        with torch.no_grad():
            if p.dim() == 2:
                p.copy_(torch.randn(p.shape, generator=g) * (1.5 / p.shape[1] ** 0.5) + 0.05)
            else:
                p.add_(torch.randn(p.shape, generator=g) * 0.1)


def sentences(seed, n):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, V, (n, 10), generator=g)
    lengths = torch.randint(2, 11, (n,), generator=g)
    ids[torch.arange(10)[None] >= lengths[:, None]] = 0
    return ids


@torch.no_grad()
def main():
    model = SentenceEncoder().eval()
    for p in model.parameters():
        if p.dim() == 1:
            p.zero_()
    for layer in model.layers:
        layer.norm1.weight.fill_(1.0)
        layer.norm2.weight.fill_(1.0)
    seed_weights(model)
    docs, queries = model(sentences(1, 12)), model(sentences(2, 3))
    sims = queries @ docs.t()
    for i, row in enumerate(sims):
        print(f"query {i}: best {row.max().item():.9f} first {row[0].item():.9f} last {row[-1].item():.9f}")
    loss = F.cross_entropy(sims / 0.2, torch.tensor([4, 7, 0]))
    print(f"retrieval loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
