"""timm ResNet against own functional-style ResNet."""

import torch
from torch import nn


def conv_bn(cin, cout, k, stride, pad):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, pad, bias=False), nn.BatchNorm2d(cout))


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = conv_bn(cin, cout, 3, stride, 1)
        self.b = conv_bn(cout, cout, 3, 1, 1)
        self.skip = conv_bn(cin, cout, 1, stride, 0) if stride != 1 or cin != cout else nn.Identity()

    def forward(self, x):
        y = self.b(self.a(x).relu())
        return (y + self.skip(x)).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn(3, 64, 7, 2, 3)
        self.stages = nn.Sequential(Residual(64, 8, 1), Residual(8, 8, 2), Residual(8, 16, 2), Residual(16, 16, 2))
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.stem(x).relu(), 3, 2, 1)
        x = self.stages(x)
        return self.fc(x.mean((2, 3)))


def rename(key):
    key = key.replace("downsample.0", "skip.0").replace("downsample.1", "skip.1")
    for i in range(1, 5):
        key = key.replace(f"layer{i}.0.", f"stages.{i - 1}.")
    if key.startswith(("conv1", "bn1")):
        return key.replace("conv1", "stem.0").replace("bn1", "stem.1")
    return key.replace("conv1", "a.0").replace("bn1", "a.1").replace("conv2", "b.0").replace("bn2", "b.1")


net = Net()
net.load_state_dict({rename(k): v for k, v in torch.load("weights.pt").items()})
net.train()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
gen = torch.Generator().manual_seed(6)
for step in range(2):
    x = torch.randn(4, 3, 48, 48, generator=gen)
    y = torch.randint(0, 5, (4,), generator=gen)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{step} loss {loss.item():.9f}")
