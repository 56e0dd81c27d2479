"""Convolution net with batch norm in float32 against autocast."""

import torch
from torch import nn

torch.manual_seed(4)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(c)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)) + x)


net = nn.Sequential(
    nn.Conv2d(3, 16, 3, 2, 1),
    Block(16),
    nn.MaxPool2d(2),
    Block(16),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(16, 5),
)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
g = torch.Generator().manual_seed(4)
for step in range(3):
    x = torch.randn(8, 3, 16, 16, generator=g)
    y = torch.randint(0, 5, (8,), generator=g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{step} {loss.item():.9f}")
