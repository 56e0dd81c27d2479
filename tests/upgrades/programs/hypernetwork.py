"""A network that makes the weights of another."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(9)
SHAPES = [(8, 3), (8,), (1, 8), (1,)]
SIZES = [24, 8, 8, 1]


class Hyper(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.codes = nn.Embedding(tasks, 5)
        self.body = nn.Sequential(nn.Linear(5, 16), nn.Tanh())
        self.gen = nn.Linear(16, sum(SIZES))

    def forward(self, task):
        flat = self.gen(self.body(self.codes(task))) * 0.5
        return [p.view(s) for p, s in zip(flat.split(SIZES), SHAPES)]


def target_net(params, x):
    w1, b1, w2, b2 = params
    h = F.softplus(F.linear(x, w1, b1))
    return F.linear(h, w2, b2)[:, 0]


hyper = Hyper(3)
opt = torch.optim.Adam([
    {"params": hyper.codes.parameters(), "lr": 5e-2},
    {"params": list(hyper.body.parameters()) + list(hyper.gen.parameters()), "lr": 5e-3},
])
g = torch.Generator().manual_seed(10)
for step in range(3):
    opt.zero_grad()
    losses = []
    for task in range(3):
        x = torch.randn(10, 3, generator=g)
        y = x[:, task] * (task + 1)
        losses.append(F.mse_loss(target_net(hyper(torch.tensor(task)), x), y))
    loss = torch.stack(losses).mean()
    loss.backward()
    opt.step()
    print(f"step {step}: " + " ".join(f"{l.item():.9f}" for l in losses))
