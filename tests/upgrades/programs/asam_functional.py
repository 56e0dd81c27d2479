"""Adaptive sharpness-aware minimisation written with torch.func on a dictionary of weights, momentum by hand."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad_and_value

RHO, ETA, LR, MOMENTUM, DECAY = 0.5, 0.01, 0.05, 0.9, 5e-4


class SepBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = nn.GroupNorm(4, channels)

    def forward(self, x):
        return x + F.hardswish(self.norm(self.pointwise(self.depthwise(x))))


class SepNet(nn.Module):
    def __init__(self, channels=16, classes=6):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(SepBlock(channels), SepBlock(channels))
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def images(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(8, 3, 16, 16, generator=g), torch.randint(0, 6, (8,), generator=g)


torch.manual_seed(0)
model = SepNet()


def objective(weights, x, y):
    return F.cross_entropy(functional_call(model, weights, (x,)), y)


def climb(weights, gradients):
    """The step of length RHO uphill, in the metric of the size of each weight."""
    size = {name: w.abs() + ETA for name, w in weights.items()}
    norm = sum((size[name] * g).square().sum() for name, g in gradients.items()).sqrt()
    return {name: w + RHO / (norm + 1e-12) * size[name].square() * gradients[name] for name, w in weights.items()}


weights = {name: p.detach().clone() for name, p in model.named_parameters()}
velocity = {name: torch.zeros_like(w) for name, w in weights.items()}
for step in range(3):
    x, y = images(step)
    gradients, loss = grad_and_value(objective)(weights, x, y)
    uphill = climb(weights, gradients)
    gradients, worst = grad_and_value(objective)(uphill, x, y)
    for name, g in gradients.items():
        velocity[name] = MOMENTUM * velocity[name] + g + DECAY * weights[name]
        weights[name] = weights[name] - LR * velocity[name]
    print(f"step {step} loss {loss.item():.9f} perturbed {worst.item():.9f}")
