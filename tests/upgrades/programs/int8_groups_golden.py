"""Sentence encoder in float32: embeddings and pair similarities of a small bidirectional transformer."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.dense = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (m(x).view(b, t, self.heads, -1).transpose(1, 2) for m in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return self.dense(y.transpose(1, 2).reshape(b, t, d))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = Attention(dim, heads)
        self.norm1 = nn.LayerNorm(dim)
        self.intermediate = nn.Linear(dim, 3 * dim)
        self.output = nn.Linear(3 * dim, dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.output(F.gelu(self.intermediate(x))))


class SentenceEncoder(nn.Module):
    def __init__(self, vocab=60, dim=32, heads=4, layers=2, out=24):
        super().__init__()
        self.word = nn.Embedding(vocab, dim)
        self.position = nn.Embedding(16, dim)
        self.norm = nn.LayerNorm(dim)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(layers))
        self.projection = nn.Linear(dim, out)

    def forward(self, ids, mask):
        x = self.norm(self.word(ids) + self.position.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x, mask)
        w = mask.unsqueeze(-1).float()
        pooled = (x * w).sum(1) / w.sum(1)
        return F.normalize(self.projection(pooled), dim=-1)


def build():
    return SentenceEncoder()


def main():
    model = build().eval()
    model.load_state_dict(torch.load("weights.pt"))
    with torch.no_grad():
        for call in range(2):
            g = torch.Generator().manual_seed(40 + call)
            ids = torch.randint(0, 60, (4, 12), generator=g)
            mask = torch.arange(12) < torch.tensor([12, 7, 9, 10])[:, None]
            emb = model(ids, mask)
            sim = emb @ emb.T
            print(
                f"call {call}: sim01 {sim[0, 1].item():.9f} sim23 {sim[2, 3].item():.9f} "
                f"norm4 {emb.pow(4).sum().item():.9f}"
            )


if __name__ == "__main__":
    main()
