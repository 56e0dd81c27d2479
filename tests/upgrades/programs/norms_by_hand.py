"""BatchNorm and GroupNorm against written by hand, with eval passes using the running statistics."""

import torch
from torch import nn

torch.manual_seed(8)


class HandBatchNorm(nn.Module):
    def __init__(self, c, eps=1e-5, momentum=0.1):
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))
        self.register_buffer("mean", torch.zeros(c))
        self.register_buffer("var", torch.ones(c))
        self.eps, self.momentum = eps, momentum

    def forward(self, x):
        if self.training:
            m = x.mean((0, 2, 3))
            v = x.var((0, 2, 3), unbiased=False)
            n = x.numel() / x.shape[1]
            with torch.no_grad():
                self.mean += self.momentum * (m - self.mean)
                self.var += self.momentum * (v * n / (n - 1) - self.var)
        else:
            m, v = self.mean, self.var
        shape = (1, -1, 1, 1)
        return (x - m.view(shape)) / torch.sqrt(v.view(shape) + self.eps) * self.g.view(shape) + self.b.view(shape)


class HandGroupNorm(nn.Module):
    def __init__(self, groups, c, eps=1e-5):
        super().__init__()
        self.groups, self.eps = groups, eps
        self.g, self.b = nn.Parameter(torch.ones(c, 1, 1)), nn.Parameter(torch.zeros(c, 1, 1))

    def forward(self, x):
        n, c, h, w = x.shape
        y = x.reshape(n, self.groups, -1)
        y = (y - y.mean(-1, keepdim=True)) * (y.var(-1, unbiased=False, keepdim=True) + self.eps).rsqrt()
        return y.view(n, c, h, w) * self.g + self.b


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(2, 8, 3, padding=1)
        self.n1 = HandBatchNorm(8)
        self.c2 = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.n2 = HandGroupNorm(2, 8)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.n1(self.c1(x)))
        x = torch.relu(self.n2(self.c2(x)))
        return self.fc(x.mean((-1, -2)))


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
gen = torch.Generator().manual_seed(8)
for i in range(3):
    net.train()
    x = torch.randn(4, 2, 10, 10, generator=gen) * 2 + 1
    y = torch.randint(0, 3, (4,), generator=gen)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    with torch.no_grad():
        check = nn.functional.cross_entropy(net(x), y)
    print(f"{i} train {loss.item():.9f} eval {check.item():.9f}")
