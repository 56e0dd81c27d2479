"""Scores candidate continuations of a prompt one after the other, each with a full causal pass."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.RMSNorm(dim, eps=1e-6)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(dim, 3 * dim, bias=False), "out": nn.Linear(dim, dim, bias=False)})
        self.norm2 = nn.RMSNorm(dim, eps=1e-6)
        self.up = nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def rotate(self, x):
        t, half = x.shape[-2], x.shape[-1] // 2
        angle = torch.outer(torch.arange(t).float(), 100.0 ** (-torch.arange(half) / half))
        cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.attn["qkv"](self.norm1(x)).chunk(3, -1))
        out = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        x = x + self.attn["out"](out.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(self.norm2(x))) ** 2)


class Transformer(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=3, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm = nn.RMSNorm(dim, eps=1e-6)

    def forward(self, tokens):
        return self.norm(self.blocks(self.embed(tokens))) @ self.embed.weight.T


def build():
    torch.manual_seed(0)
    model = Transformer()
    with torch.no_grad():
        model.embed.weight.mul_(0.4)
        for block in model.blocks:
            block.attn["qkv"].weight.mul_(2)
            block.norm1.weight.uniform_(0.6, 1.4)
    return model


def candidates(g):
    prompt = torch.randint(0, 64, (int(torch.randint(4, 9, (1,), generator=g)),), generator=g)
    a, b, c, d, e, f = torch.randperm(64, generator=g)[:6].tolist()
    return prompt, [[a, b, c, d], [a, b, e], [a, f, c], [d, b, c], [d, e]]


@torch.no_grad()
def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.eval()
    g = torch.Generator().manual_seed(4)
    for call in range(3):
        prompt, paths = candidates(g)
        scores = []
        for path in paths:
            tokens = torch.cat([prompt, torch.tensor(path)]).unsqueeze(0)
            logits = model(tokens)[0, len(prompt) - 1 : -1]
            scores.append(-F.cross_entropy(logits, torch.tensor(path), reduction="sum").item())
        print(f"call {call}", " ".join(f"{value:.7f}" for value in scores))


if __name__ == "__main__":
    main()
