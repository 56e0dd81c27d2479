"""Link prediction in a taxonomy with embeddings on the Poincare ball and Riemannian SGD."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(17)
EPS = 1e-5


def length(x):
    return x.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def project(x):
    return x * (length(x).clamp_max(1 - EPS) / length(x))


def expmap0(v):
    return torch.tanh(length(v)) * v / length(v)


def logmap0(x):
    return torch.atanh(length(x).clamp_max(1 - EPS)) * x / length(x)


def mobius_add(x, y):
    xy = (x * y).sum(-1, keepdim=True)
    x2, y2 = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
    top = (1 + 2 * xy + y2) * x + (1 - x2) * y
    return top / (1 + 2 * xy + x2 * y2)


class NodeTable(nn.Module):
    def __init__(self, count, dim):
        super().__init__()
        self.points = nn.Parameter(expmap0(torch.randn(count, dim) * 0.3))

    def forward(self, ids):
        return self.points[ids]


class MobiusLinear(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(dim) + 0.2 * torch.randn(dim, dim))
        self.bias = nn.Parameter(torch.randn(dim) * 0.05)

    def forward(self, x):
        moved = expmap0(F.linear(logmap0(x), self.weight))
        return project(mobius_add(moved, expmap0(self.bias)))


class FermiDirac(nn.Module):
    def __init__(self):
        super().__init__()
        self.radius = nn.Parameter(torch.tensor(1.0))
        self.log_temp = nn.Parameter(torch.tensor(-0.5))

    def forward(self, x, y):
        gap = (x - y).square().sum(-1)
        denom = (1 - x.square().sum(-1)) * (1 - y.square().sum(-1))
        dist = torch.acosh(1 + 2 * gap / denom + 1e-7)
        return (self.radius - dist) / self.log_temp.exp()


class TreeModel(nn.Module):
    def __init__(self, count, dim=5):
        super().__init__()
        self.nodes = NodeTable(count, dim)
        self.parent_map = MobiusLinear(dim)
        self.decoder = FermiDirac()

    def forward(self, child, parent):
        return self.decoder(self.parent_map(self.nodes(child)), self.nodes(parent))


class RiemannianSGD(torch.optim.Optimizer):
    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr, "ball": False})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if not group["ball"]:
                    p.sub_(group["lr"] * p.grad)
                    continue
                conformal = 2 / (1 - p.square().sum(-1, keepdim=True))
                direction = -group["lr"] * p.grad / conformal**2
                move = torch.tanh(conformal * length(direction) / 2) * direction / length(direction)
                p.copy_(project(mobius_add(p, move)))


count, child = 40, torch.arange(1, 40)
parent = (child - 1) // 3
model = TreeModel(count)
flat = [p for p in model.parameters() if p is not model.nodes.points]
optimizer = RiemannianSGD([{"params": [model.nodes.points], "ball": True, "lr": 4.0}, {"params": flat}], lr=0.2)
gen = torch.Generator().manual_seed(8)
for step in range(1, 4):
    fakes = torch.randint(0, count, (4, len(child)), generator=gen)
    real, fake = model(child, parent), model(child.expand(4, -1), fakes)
    clash = (fakes == parent) | (fakes == child)
    fake_loss = F.softplus(fake).masked_fill(clash, 0.0).sum() / (~clash).sum()
    loss = F.softplus(-real).mean() + fake_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
