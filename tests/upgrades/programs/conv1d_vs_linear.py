"""1-d convolutions against unfold + linear and shifted sums."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(5)


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        conv = nn.Conv1d(3, 16, kernel_size=4, stride=4)
        self.weight = nn.Parameter(conv.weight.detach().flatten(1).clone())
        self.bias = nn.Parameter(conv.bias.detach().clone())

    def forward(self, x):
        windows = x.unfold(2, 4, 4).permute(0, 2, 1, 3).flatten(2)
        return F.linear(windows, self.weight, self.bias)


class Causal(nn.Module):
    def __init__(self, d=16, k=3):
        super().__init__()
        dw = nn.Conv1d(d, d, k, groups=d)
        pw = nn.Conv1d(d, 2 * d, 1)
        self.k = k
        self.taps = nn.Parameter(dw.weight.detach()[:, 0].clone())
        self.tap_bias = nn.Parameter(dw.bias.detach().clone())
        self.pw = nn.utils.skip_init(nn.Linear, d, 2 * d)
        self.pw.weight.data.copy_(pw.weight.detach()[..., 0])
        self.pw.bias.data.copy_(pw.bias.detach())

    def forward(self, x):
        T = x.shape[1]
        padded = F.pad(x, (0, 0, self.k - 1, 0))
        h = sum(padded[:, j : j + T] * self.taps[:, j] for j in range(self.k)) + self.tap_bias
        return F.glu(self.pw(h), -1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = PatchEmbed()
        self.mix = nn.Sequential(Causal(), Causal())
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        h = self.embed(x)
        for layer in self.mix:
            h = h + layer(h)
        return self.head(h.mean(1))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
gen = torch.Generator().manual_seed(6)
for step in range(3):
    x = torch.randn(4, 3, 32, generator=gen)
    y = torch.randint(0, 4, (4,), generator=gen)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{step}: {loss.item():.9f}")
