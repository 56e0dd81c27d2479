"""Merged convolution LoRA against live convolution LoRA."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(500)
R, ALPHA = 3, 6


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.two = nn.Conv2d(8, 8, 3, padding=1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = F.relu(self.one(x))
        x = F.relu(self.two(x))
        return self.fc(x.mean((2, 3)))


net = Stack().eval()
g = torch.Generator().manual_seed(501)
low = {
    n: (torch.randn(R, c, 3, 3, generator=g) * 0.3, torch.randn(8, R, 1, 1, generator=g) * 0.3)
    for n, c in (("one", 3), ("two", 8))
}


class ConvLoRA(nn.Module):
    def __init__(self, conv, a, b):
        super().__init__()
        self.conv = conv
        self.a, self.b = nn.Parameter(a), nn.Parameter(b)

    def forward(self, x):
        down = F.conv2d(x, self.a, stride=self.conv.stride, padding=self.conv.padding)
        return self.conv(x) + F.conv2d(down, self.b) * (ALPHA / R)


for n, (a, b) in low.items():
    setattr(net, n, ConvLoRA(getattr(net, n), a, b))
with torch.no_grad():
    for step in range(3):
        y = net(torch.randn(2, 3, 12, 12, generator=g))
        print(f"{step} {y.mean().item():.9f} {y.std().item():.9f}")
