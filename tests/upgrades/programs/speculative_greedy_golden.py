"""Plain greedy decoding without a cache: every token needs a pass over the whole text."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(dim, 3 * dim), "out": nn.Linear(dim, dim)})
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.attn["qkv"](self.norm1(x)).split(d, dim=-1)
        q, k, v = (p.reshape(b, t, self.heads, -1).transpose(1, 2) for p in (q, k, v))
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = scores + torch.full((t, t), float("-inf")).triu(1)
        x = x + self.attn["out"]((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, dim=32, depth=3, heads=4, vocab=50, longest=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = nn.Embedding(longest, dim)
        self.blocks = nn.Sequential(*(Layer(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens):
        x = self.embed(tokens) + self.place.weight[: tokens.size(1)]
        return self.head(self.norm(self.blocks(x)))


def build():
    torch.manual_seed(0)
    model = LanguageModel()
    with torch.no_grad():
        for block in model.blocks[1:]:
            block.attn["out"].weight.mul_(0.7)
            block.ff[2].weight.mul_(0.7)
        model.head.weight.mul_(3)
    return model


@torch.no_grad()
def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    model.eval()
    g = torch.Generator().manual_seed(2)
    for request in range(4):
        text = torch.randint(0, 50, (1, 4 + 2 * request), generator=g)
        start, total = text.size(1), 0.0
        for _ in range(14):
            log_p = torch.log_softmax(model(text)[:, -1], dim=-1)
            value, token = log_p.max(dim=-1)
            total += value.item()
            text = torch.cat([text, token[:, None]], dim=1)
        print(f"request {request} logprob {total:.9f} mean token {text[0, start:].float().mean().item():.6f}")


if __name__ == "__main__":
    main()
