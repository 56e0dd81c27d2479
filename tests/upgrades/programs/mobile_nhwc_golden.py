"""Image regression with a mobile network in the layout of torch that pads as TensorFlow does."""

import torch
from torch import nn
from torch.nn import functional as F


class Conv(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride=1, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)
        whole = max(kernel - stride, 0)  # for even sizes
        self.pad = (whole // 2, whole - whole // 2) * 2

    def forward(self, x):
        return self.norm(self.conv(F.pad(x, self.pad)))


class Squeeze(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.down = nn.Conv2d(channels, reduced, 1)
        self.up = nn.Conv2d(reduced, channels, 1)

    def forward(self, x):
        y = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.up(F.relu(self.down(y))))


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        wide = 3 * inputs
        self.expand = Conv(inputs, wide, 1)
        self.depth = Conv(wide, wide, 3, stride=stride, groups=wide)
        self.squeeze = Squeeze(wide, 8)
        self.project = Conv(wide, outputs, 1)
        self.same = stride == 1 and inputs == outputs

    def forward(self, x):
        y = F.hardswish(self.depth(F.hardswish(self.expand(x))))
        y = self.project(self.squeeze(y))
        return x + y if self.same else y


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Conv(3, 8, 3, stride=2)
        self.blocks = nn.Sequential(Inverted(8, 8, 1), Inverted(8, 12, 2), Inverted(12, 12, 1))
        self.head = nn.Linear(12 * 16, 2)

    def forward(self, x):
        x = self.blocks(F.hardswish(self.stem(x)))
        return self.head(x.flatten(1))


def build():
    return Mobile()


def batch(step):
    generator = torch.Generator().manual_seed(20 + step)
    images = torch.rand(8, 3, 16, 16, generator=generator)
    across = torch.linspace(-1, 1, 16)
    weight = images[:, 0] ** 4
    target = torch.stack([(weight * across).mean((1, 2)), (weight * across[:, None]).mean((1, 2))], dim=-1)
    return images, 20 * target


if __name__ == "__main__":
    model = build()
    model.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.9, eps=1e-3)
    for step in range(3):
        images, target = batch(step)
        loss = F.mse_loss(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
