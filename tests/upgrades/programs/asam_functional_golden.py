"""Adaptive sharpness-aware minimisation as an optimizer around torch.optim.SGD, with two backward passes a step."""

import torch
import torch.nn.functional as F
from torch import nn


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


class ASAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.5, eta=0.01, **kwargs):
        super().__init__(params, dict(rho=rho, eta=eta, **kwargs))
        self.base = base(self.param_groups, **kwargs)

    @torch.no_grad()
    def first_step(self):
        norms = []
        for group in self.param_groups:
            norms += [((p.abs() + group["eta"]) * p.grad).norm(p=2) for p in group["params"]]
        norm = torch.stack(norms).norm(p=2)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.clone()
                p.add_((p.abs() + group["eta"]) ** 2 * p.grad * (group["rho"] / (norm + 1e-12)))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p].pop("old"))
        self.base.step()
        self.zero_grad()


def images(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(8, 3, 16, 16, generator=g), torch.randint(0, 6, (8,), generator=g)


def main():
    torch.manual_seed(0)
    model = SepNet()
    optimizer = ASAM(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=5e-4)
    for step in range(3):
        x, y = images(step)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.first_step()
        worst = F.cross_entropy(model(x), y)
        worst.backward()
        optimizer.second_step()
        print(f"step {step} loss {loss.item():.9f} perturbed {worst.item():.9f}")


if __name__ == "__main__":
    main()
