"""Linear recurrence as a loop against a long convolution."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(23)


class LinearSSM(nn.Module):
    """diagonal linear recurrence h[t] = a h[t-1] + b x[t], y = c h + d x"""

    def __init__(self, d=12, n=4):
        super().__init__()
        self.log_a = nn.Parameter(torch.rand(d, n) + 0.2)
        self.b = nn.Parameter(torch.randn(d, n))
        self.c = nn.Parameter(torch.randn(d, n) / n)
        self.d = nn.Parameter(torch.ones(d))

    def forward(self, x):
        a = torch.exp(-self.log_a)
        T = x.shape[1]
        powers = a[None] ** torch.arange(T).view(-1, 1, 1)
        kernel = (powers * self.b * self.c).sum(-1).t()
        y = F.conv1d(F.pad(x.transpose(1, 2), (T - 1, 0)), kernel.flip(-1)[:, None], groups=x.shape[-1])
        y = y.transpose(1, 2)
        return y + self.d * x


net = nn.Sequential(nn.Linear(3, 12), LinearSSM(), nn.GELU(), LinearSSM(), nn.Linear(12, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
gen = torch.Generator().manual_seed(23)
for step in range(3):
    x = torch.randn(2, 10, 3, generator=gen)
    y = x.sum(-1, keepdim=True).cumsum(1)
    loss = F.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} mse {loss.item():.9f}")
