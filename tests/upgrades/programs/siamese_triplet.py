"""Siamese encoders with a triplet loss."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(23)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(60, 16, padding_idx=0)
        self.conv = nn.Conv1d(16, 24, 3, padding=1)
        self.proj = nn.Linear(24, 12)

    def forward(self, ids):
        x = torch.tanh(self.conv(self.emb(ids).transpose(1, 2)))
        x = x.masked_fill((ids == 0).unsqueeze(1), float("-inf")).amax(-1)
        return F.normalize(self.proj(x), dim=-1)


def triplet(a, p, n, margin=0.3):
    d_pos = (a - p).pow(2).sum(-1)
    d_neg = (a - n).pow(2).sum(-1)
    return F.relu(d_pos - d_neg + margin).mean()


def sample(g, n=6, length=9):
    ids = torch.randint(1, 60, (n, length), generator=g)
    ids[:, 6:] = ids[:, 6:] * (torch.rand(n, 3, generator=g) > 0.5)
    return ids


tower = Tower()
opt = torch.optim.Adam(tower.parameters(), lr=1e-2)
g = torch.Generator().manual_seed(24)
for step in range(3):
    anchor, pos, neg = sample(g), sample(g), sample(g)
    pos[:, :4] = anchor[:, :4]
    a, p, n = tower(anchor), tower(pos), tower(neg)
    loss = triplet(a, p, n)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
