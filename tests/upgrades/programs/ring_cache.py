"""Greedy decoding of a sliding-window decoder through a rolling key-value cache of the size of the window."""

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, DIM, HEADS, WINDOW, LAYERS = 61, 32, 4, 6, 2


def rotate(x, position):
    half = x.shape[-1] // 2
    inv = 100.0 ** (-torch.arange(half) / half)
    cos, sin = (position * inv).cos(), (position * inv).sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class RollingCache:
    def __init__(self, batch):
        self.keys = torch.zeros(LAYERS, batch, HEADS, WINDOW, DIM // HEADS)
        self.values = torch.zeros_like(self.keys)

    def put(self, layer, position, key, value):
        slot = position % WINDOW
        self.keys[layer, :, :, slot] = key
        self.values[layer, :, :, slot] = value
        filled = min(position + 1, WINDOW)
        return self.keys[layer, :, :, :filled], self.values[layer, :, :, :filled]


class WindowAttention(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x, position, cache):
        q, k, v = self.qkv(x).view(-1, 3, HEADS, DIM // HEADS).unbind(1)
        q = rotate(q, position)
        k = rotate(k, position)
        keys, values = cache.put(self.index, position, k, v)
        scores = torch.einsum("bhd,bhsd->bhs", q, keys) * (DIM // HEADS) ** -0.5
        y = torch.einsum("bhs,bhsd->bhd", scores.softmax(-1), values)
        return self.out(y.flatten(1))


class Block(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.norm1 = nn.RMSNorm(DIM, eps=1e-6)
        self.attention = WindowAttention(index)
        self.norm2 = nn.RMSNorm(DIM, eps=1e-6)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)

    def forward(self, x, position, cache):
        x = x + self.attention(self.norm1(x), position, cache)
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Block(i) for i in range(LAYERS))
        self.norm = nn.RMSNorm(DIM, eps=1e-6)

    def forward(self, token, position, cache):
        x = self.embed(token)
        for layer in self.layers:
            x = layer(x, position, cache)
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
    prompt = prompts[step]
    cache = RollingCache(batch=4)
    score = torch.zeros(4)
    with torch.no_grad():
        for position, token in enumerate(prompt.t()):
            logits = model(token, position, cache)
        for position in range(prompt.shape[1], prompt.shape[1] + 12):
            best, token = logits.log_softmax(-1).max(-1)
            score = score - best
            logits = model(token, position, cache)
    loss = score.sum()
    print(f"step {step} loss {loss.item():.9f}")
