"""Greedy generation for several prompts at once: left padding, a cache, and distances (ALiBi) instead of positions."""

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, DIM, LAYERS, HEADS, NEW = 70, 32, 3, 4, 8


class AlibiAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, valid, past):
        """valid [b, keys] tells which of all keys, cached and new, are no padding"""
        q, k, v = self.qkv(x).unflatten(-1, (HEADS, 3, -1)).permute(3, 0, 2, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        keys = torch.arange(k.shape[2])
        queries = keys[-q.shape[2] :]
        distance = queries[:, None] - keys
        slopes = 2.0 ** (-8.0 * torch.arange(1, HEADS + 1) / HEADS)
        bias = -slopes[:, None, None] * distance
        seen = (distance >= 0) & valid[:, None, None, :]
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        weights = scores.masked_fill(~seen, -1e9).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2)), (k, v)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.attn = AlibiAttention()
        self.norm2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x, valid, past):
        attended, present = self.attn(self.norm1(x), valid, past)
        x = x + attended
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), present


class AlibiLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.embed_norm = nn.LayerNorm(DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)

    def forward(self, tokens, valid, pasts):
        x = self.embed_norm(self.embed(tokens))
        presents = []
        for block, past in zip(self.blocks, pasts):
            x, present = block(x, valid, past)
            presents.append(present)
        return self.norm(x[:, -1]) @ self.embed.weight.t(), presents


@torch.inference_mode()
def generate(model, prompts):
    longest = max(len(p) for p in prompts)
    tokens = torch.stack([F.pad(p, (longest - len(p), 0)) for p in prompts])
    valid = torch.stack([F.pad(torch.ones(len(p), dtype=torch.bool), (longest - len(p), 0)) for p in prompts])
    total = torch.zeros(len(prompts))
    pasts = [None] * LAYERS
    for _ in range(NEW):
        logits, pasts = model(tokens, valid, pasts)
        value, token = logits.log_softmax(dim=-1).max(dim=-1)
        total += value
        tokens = token[:, None]
        valid = F.pad(valid, (0, 1), value=True)
    return total


def main():
    model = AlibiLM()
    model.load_state_dict(torch.load("weights.pt"))
    model.eval()
    g = torch.Generator().manual_seed(9)
    for batch in range(2):
        prompts = [torch.randint(1, VOCAB, (n,), generator=g) for n in (9, 4, 7, 2)]
        for request, value in enumerate(generate(model, prompts).tolist()):
            print(f"batch {batch} request {request} logprob {value:.8f}")


if __name__ == "__main__":
    main()
