"""Greedy decoding of a sliding-window decoder, every step a full forward with a banded mask."""

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, DIM, HEADS, WINDOW, LAYERS = 61, 32, 4, 6, 2


def rotate(x, positions):
    half = x.shape[-1] // 2
    inv = 100.0 ** (-torch.arange(half) / half)
    angle = positions[:, None] * inv
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class WindowAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        positions = torch.arange(t)
        q, k = rotate(q, positions), rotate(k, positions)
        distance = positions[:, None] - positions[None, :]
        mask = (distance >= 0) & (distance < WINDOW)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.RMSNorm(DIM, eps=1e-6)
        self.attention = WindowAttention()
        self.norm2 = nn.RMSNorm(DIM, eps=1e-6)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM, eps=1e-6)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embed.weight.t() / DIM**0.5


torch.manual_seed(5)
model = Decoder()
with torch.no_grad():
    for name, weight in model.named_parameters():
        if "attention" in name:
            weight.mul_(3.0)
model.eval()
prompts = torch.randint(0, VOCAB, (3, 4, 5), generator=torch.Generator().manual_seed(1))

for step in range(3):
    ids = prompts[step]
    score = torch.zeros(4)
    with torch.no_grad():
        for _ in range(12):
            logprob = model(ids)[:, -1].log_softmax(-1)
            best, token = logprob.max(-1)
            score = score - best
            ids = torch.cat([ids, token[:, None]], dim=1)
    loss = score.sum()
    print(f"step {step} loss {loss.item():.9f}")
