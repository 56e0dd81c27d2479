"""Physics-informed network for the Burgers equation, trained by LBFGS: derivatives by the chain rule, by hand."""

import math

import torch
from torch import nn

NU = 0.05


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, x, t):
        h = torch.tanh(self.l1(torch.cat([x, t], 1)))
        h = torch.tanh(self.l2(h))
        return self.l3(h)


def residual(net, x, t):
    """Burgers; derivatives of the two tanh layers by the chain rule, by hand."""
    w1, w2, w3 = net.l1.weight, net.l2.weight, net.l3.weight
    z = torch.tanh(net.l1(torch.cat([x, t], 1)))
    g = 1 - z * z
    zx, zt = g * w1[:, 0], g * w1[:, 1]
    zxx = -2 * z * g * w1[:, 0] ** 2
    y = torch.tanh(net.l2(z))
    k = 1 - y * y
    ax, at, axx = zx @ w2.T, zt @ w2.T, zxx @ w2.T
    u = net.l3(y)
    u_x, u_t = (k * ax) @ w3.T, (k * at) @ w3.T
    u_xx = (k * axx - 2 * y * k * ax**2) @ w3.T
    return u_t + u * u_x - NU * u_xx


torch.manual_seed(17)
net = Field()
x = (torch.rand(40, 1) * 2 - 1).requires_grad_()
t = torch.rand(40, 1).requires_grad_()
x0 = torch.linspace(-1, 1, 21).unsqueeze(1)
u0 = -torch.sin(math.pi * x0)
tb = torch.rand(10, 1)
opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4, history_size=5)
for it in range(3):
    seen = []

    def closure():
        opt.zero_grad()
        inside = residual(net, x, t).pow(2).mean()
        start = (net(x0, torch.zeros_like(x0)) - u0).pow(2).mean()
        wall = net(torch.ones_like(tb), tb).pow(2).mean() + net(-torch.ones_like(tb), tb).pow(2).mean()
        loss = inside + start + wall
        loss.backward()
        seen.append(loss.item())
        return loss

    opt.step(closure)
    print(f"it {it} " + " ".join(f"{v:.8f}" for v in seen))
