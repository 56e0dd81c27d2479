"""Embedding_bag against one-hot matrix product, table tied to the output."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(19)


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(25, 16) * 0.5)
        self.mix = nn.Linear(16, 16)

    def forward(self, ids):
        hot = F.one_hot(ids, 25).float()
        hot[..., 0] = 0.0
        count = hot.sum((1, 2)).clamp(min=1)
        pooled = (hot.sum(1) @ self.table) / (count[:, None] if torch.is_tensor(count) else count)
        h = torch.tanh(self.mix(pooled))
        return h @ self.table.t()


bag = Bag()
opt = torch.optim.Adam(bag.parameters(), lr=1e-2)
gen = torch.Generator().manual_seed(20)
for step in range(3):
    ids = torch.randint(1, 25, (5, 6), generator=gen)
    ids[0, 3:] = 0
    target = torch.randint(1, 25, (5,), generator=gen)
    loss = F.cross_entropy(bag(ids), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, f"{loss.item():.9f}")
