"""Physics-informed network for the Burgers equation, trained by LBFGS: derivatives by autograd."""

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


def derivative(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(net, x, t):
    """Burgers: u_t + u u_x - nu u_xx."""
    u = net(x, t)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
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
