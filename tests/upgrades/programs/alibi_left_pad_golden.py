"""Greedy generation of an ALiBi language model, one prompt at a time and without a cache."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        self.slopes = [start**power for power in range(1, heads + 1)]

    def forward(self, x):
        t = x.size(0)
        position = torch.arange(t).float()
        fused = self.qkv(x).view(t, self.heads, 3, -1)
        heads = []
        for h, slope in enumerate(self.slopes):
            q, k, v = fused[:, h].unbind(1)
            scores = q @ k.T / math.sqrt(q.size(1)) + slope * position
            scores = scores.masked_fill(torch.triu(torch.ones(t, t), 1).bool(), float("-inf"))
            heads.append(torch.softmax(scores, dim=1) @ v)
        return self.out(torch.cat(heads, dim=1))


class Block(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, vocab=70, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.embed_norm = nn.LayerNorm(dim)
        self.blocks = nn.Sequential(Block(dim), Block(dim), Block(dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        return F.linear(self.norm(self.blocks(self.embed_norm(self.embed(tokens)))), self.embed.weight)


def build():
    torch.manual_seed(0)
    model = Model()
    for name, p in model.named_parameters():
        if "qkv.weight" in name:
            nn.init.normal_(p, std=0.4)
    return model


def main():
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    g = torch.Generator().manual_seed(9)
    for batch in range(2):
        prompts = [torch.randint(1, 70, (n,), generator=g) for n in (9, 4, 7, 2)]
        for request, text in enumerate(prompts):
            total = 0.0
            for _ in range(8):
                with torch.no_grad():
                    log_p = model(text)[-1].log_softmax(0)
                token = log_p.argmax()
                total += log_p[token].item()
                text = torch.cat([text, token.view(1)])
            print(f"batch {batch} request {request} logprob {total:.8f}")


if __name__ == "__main__":
    main()
