"""Prefix tuning of a frozen causal encoder: attention to prefix and to text are computed apart and merged."""

import torch
from torch import nn
from torch.nn import functional as F

DIM, HEADS, PREFIX, LENGTH, LAYERS = 32, 4, 5, 12, 2


class PrefixEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(PREFIX, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh(), nn.Linear(DIM, LAYERS * 2 * DIM))

    def forward(self):
        return self.mlp(self.table.weight).view(PREFIX, LAYERS, 2, HEADS, -1).permute(1, 2, 3, 0, 4)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, prefix):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scale = q.shape[-1] ** -0.5
        own = (q @ k.transpose(-1, -2)) * scale
        own = own.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        far = torch.einsum("bhtd,hpd->bhtp", q, prefix[0]) * scale
        far_value = torch.einsum("bhtp,hpd->bhtd", far.softmax(-1), prefix[1])
        share = torch.sigmoid(far.logsumexp(-1, keepdim=True) - own.logsumexp(-1, keepdim=True))
        y = share * far_value + (1 - share) * (own.softmax(-1) @ v)
        return self.out(y.transpose(1, 2).reshape(b, t, DIM))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norm = nn.LayerNorm(DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 64), nn.GELU(), nn.Linear(64, DIM))

    def forward(self, x, prefix):
        x = x + self.attention(self.norm(x), prefix)
        return x + self.ff(x)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.prefix = PrefixEncoder()
        self.embed = nn.Embedding(50, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, 7)

    def forward(self, ids):
        x = self.embed(ids)
        for layer, prefix in zip(self.layers, self.prefix()):
            x = layer(x, prefix)
        return self.head(x)


torch.manual_seed(12)
model = Tagger()
model.requires_grad_(False)
model.prefix.requires_grad_(True)
model.head.requires_grad_(True)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-2)
generator = torch.Generator().manual_seed(6)

for step in range(3):
    ids = torch.randint(0, 50, (8, LENGTH), generator=generator)
    tags = ids % 7
    loss = F.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
