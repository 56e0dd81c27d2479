"""The other implementation of adamw_by_hand.py."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(13)
model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.LayerNorm(24), nn.Linear(24, 5))

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)

gen = torch.Generator().manual_seed(2)
for step in range(3):
    x = torch.randn(6, 12, generator=gen)
    y = torch.randint(0, 5, (6,), generator=gen)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f} weights {sum(p.abs().sum().item() for p in model.parameters()):.9f}")
