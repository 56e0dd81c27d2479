"""One batch against token-weighted gradient accumulation."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(420)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 24)
        self.conv = nn.Conv1d(24, 24, 3, padding=1)
        self.norm = nn.LayerNorm(24)
        self.out = nn.Linear(24, 6)

    def forward(self, ids):
        x = self.emb(ids)
        x = x + F.gelu(self.conv(x.transpose(1, 2)).transpose(1, 2))
        return self.out(self.norm(x))


model = Tagger()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
g = torch.Generator().manual_seed(421)
for step in range(3):
    ids = torch.randint(0, 40, (8, 10), generator=g)
    tags = torch.randint(0, 6, (8, 10), generator=g)
    keep = torch.rand(8, 10, generator=g) > torch.linspace(0.1, 0.8, 8)[:, None]
    tags = tags.masked_fill(~keep, -100)
    opt.zero_grad()
    count = (tags != -100).sum()
    total = 0.0
    for rows in torch.arange(8).split(2):
        part = F.cross_entropy(model(ids[rows]).flatten(0, 1), tags[rows].flatten(), reduction="sum") / count
        part.backward()
        total += part.item()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    print(f"step {step} loss {total:.9f} norm {norm.item():.9f}")
