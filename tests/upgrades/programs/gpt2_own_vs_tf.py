"""Transformers GPT-2 against own code with separate class layout."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        hidden = nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + self.down(hidden)


class TinyGPT(nn.Module):
    def __init__(self, vocab, context, width, depth, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def convert(sd):
    out = {
        "tokens.weight": sd["transformer.wte.weight"],
        "positions.weight": sd["transformer.wpe.weight"],
        "head.weight": sd["lm_head.weight"],
    }
    names = {
        "ln_1": "norm1",
        "ln_2": "norm2",
        "attn.c_attn": "attention.qkv",
        "attn.c_proj": "attention.proj",
        "mlp.c_fc": "up",
        "mlp.c_proj": "down",
    }
    for key, value in sd.items():
        parts = key.split(".")
        if parts[1] == "ln_f":
            out["norm." + parts[-1]] = value
        elif parts[1] == "h":
            inner = names[".".join(parts[3:-1])]
            if not inner.startswith("norm") and parts[-1] == "weight":
                value = value.t().contiguous()
            out[f"blocks.{parts[2]}.{inner}.{parts[-1]}"] = value
    return out


def main():
    model = TinyGPT(80, 24, 32, 2, 4)
    model.load_state_dict(convert(torch.load("weights.pt")))
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=3e-3, betas=(0.9, 0.95)
    )
    gen = torch.Generator().manual_seed(1)
    for step in range(3):
        ids = torch.randint(0, 80, (2, 13), generator=gen)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
