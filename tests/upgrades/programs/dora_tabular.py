"""DoRA fine-tuning of a gated tabular network with own adapter layers."""

import torch
from torch import nn
from torch.nn import functional as F

DIM, RANK = 40, 4
ADAPTED = ["value", "gate", "mix"]


class GatedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.value = nn.Linear(DIM, DIM)
        self.gate = nn.Linear(DIM, DIM)
        self.mix = nn.Linear(DIM, DIM)

    def forward(self, x):
        y = self.norm(x)
        return x + self.mix(self.value(y) * self.gate(y).sigmoid())


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(10, DIM)
        self.blocks = nn.Sequential(GatedBlock(), GatedBlock())
        self.head = nn.Linear(DIM, 1)

    def forward(self, x):
        return self.head(F.relu(self.blocks(self.inp(x)))).squeeze(-1)


class DoraLinear(nn.Module):
    """The direction of the weight is learned as low-rank update, its length of each output as vector."""

    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.linear = linear
        self.scaling = alpha / rank
        self.down = nn.Parameter(torch.empty(rank, linear.in_features))
        self.up = nn.Parameter(torch.empty(linear.out_features, rank))
        self.magnitude = nn.Parameter(linear.weight.detach().norm(dim=1))

    def forward(self, x):
        direction = self.linear.weight + self.scaling * (self.up @ self.down)
        length = direction.norm(dim=1).detach()
        weight = (self.magnitude / length)[:, None] * direction
        return F.linear(x, weight, self.linear.bias)


torch.manual_seed(31)
model = Tabular()
model.requires_grad_(False)

generator = torch.Generator().manual_seed(77)
for block in model.blocks:
    for name in ADAPTED:
        layer = DoraLinear(getattr(block, name), RANK, alpha=12)
        with torch.no_grad():
            layer.down.copy_(torch.randn(RANK, DIM, generator=generator) * 0.15)
            layer.up.copy_(torch.randn(DIM, RANK, generator=generator) * 0.1)
        setattr(block, name, layer)

optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-2, weight_decay=0.0)
for step in range(3):
    x = torch.randn(64, 10, generator=generator)
    y = x[:, 0] * x[:, 1] + x[:, 2].abs()
    loss = F.smooth_l1_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
