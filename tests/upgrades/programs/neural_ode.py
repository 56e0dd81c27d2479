"""A neural differential equation, solved by Runge-Kutta."""

import torch
import torch.nn as nn

torch.manual_seed(3)


class Field(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a = nn.Linear(dim + 1, 20)
        self.b = nn.Linear(20, dim)

    def forward(self, t, y):
        tt = torch.full_like(y[:, :1], t)
        return self.b(torch.tanh(self.a(torch.cat([y, tt], 1))))


def rk4(f, y, t0, t1, n):
    h = (t1 - t0) / n
    t = t0
    for _ in range(n):
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        k4 = f(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t = t + h
    return y


class ODENet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(2, 6)
        self.field = Field(6)
        self.read = nn.Linear(6, 1)

    def forward(self, x):
        y = rk4(self.field, self.lift(x), 0.0, 1.0, 3)
        return self.read(y).squeeze(-1)


def main():
    net = ODENet()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    g = torch.Generator().manual_seed(4)
    for i in range(3):
        x = torch.randn(16, 2, generator=g)
        label = (x.norm(dim=1) > 1.2).float()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"iteration {i} loss {loss.item():.9f}")


main()
