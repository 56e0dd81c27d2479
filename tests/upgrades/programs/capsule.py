"""A capsule network with routing by agreement."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)


def squash(s, dim=-1):
    n2 = (s**2).sum(dim, keepdim=True)
    return n2 / (1 + n2) * s / torch.sqrt(n2 + 1e-8)


class Primary(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 4 * 6, 3, stride=2)

    def forward(self, x):
        u = self.conv(x)
        u = u.view(x.size(0), 4, 6, -1).permute(0, 1, 3, 2).reshape(x.size(0), -1, 6)
        return squash(u)


class Digit(nn.Module):
    def __init__(self, n_in, n_out=3, d_in=6, d_out=8, rounds=3):
        super().__init__()
        self.W = nn.Parameter(torch.randn(n_in, n_out, d_in, d_out) * 0.2)
        self.rounds = rounds

    def forward(self, u):
        votes = torch.einsum("bid,iodk->biok", u, self.W)
        logits = votes.new_zeros(votes.shape[:3])
        for r in range(self.rounds):
            c = logits.softmax(dim=2)
            v = squash((c.unsqueeze(-1) * votes).sum(1))
            if r < self.rounds - 1:
                logits = logits + (votes * v.unsqueeze(1)).sum(-1)
        return v


class CapsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3)
        self.primary = Primary()
        self.digit = Digit(4 * 9)

    def forward(self, x):
        return self.digit(self.primary(F.relu(self.stem(x)))).norm(dim=-1)


def margin_loss(length, y):
    t = F.one_hot(y, length.shape[1]).float()
    return (t * F.relu(0.9 - length) ** 2 + 0.5 * (1 - t) * F.relu(length - 0.1) ** 2).sum(1).mean()


net = CapsNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
g = torch.Generator().manual_seed(8)
for step in range(3):
    img = torch.rand(4, 1, 10, 10, generator=g)
    y = torch.randint(0, 3, (4,), generator=g)
    loss = margin_loss(net(img), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step, f"{loss.item():.9f}")
