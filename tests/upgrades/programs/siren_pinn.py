"""PINN for the 1-D heat equation, SIREN trunk behind a Fourier feature layer."""

import math

import torch
from torch import nn

torch.manual_seed(4)
ALPHA = 0.3


class FourierFeatures(nn.Module):
    def __init__(self, n_in, n_freq, scale):
        super().__init__()
        self.register_buffer("B", torch.randn(n_in, n_freq) * scale)

    def forward(self, p):
        ang = 2 * math.pi * p @ self.B
        return torch.cat([ang.sin(), ang.cos()], dim=-1)


class Sine(nn.Module):
    def __init__(self, n_in, n_out, omega):
        super().__init__()
        self.omega = omega
        self.lin = nn.Linear(n_in, n_out)
        bound = math.sqrt(6 / n_in) / omega
        nn.init.uniform_(self.lin.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.lin(x))


class Field(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.feat = FourierFeatures(2, 8, 0.4)
        self.trunk = nn.Sequential(Sine(16, width, 3.0), Sine(width, width, 3.0))
        self.gate = nn.Linear(16, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x, t):
        p = torch.stack([x, t], dim=-1)
        f = self.feat(p)
        h = self.trunk(f) * torch.sigmoid(self.gate(f))
        u = self.head(h)[..., 0]
        # hard boundary: u(0, t) = u(1, t) = 0
        return x * (1 - x) * u


def derivative(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def pde_residual(net, x, t):
    u = net(x, t)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    return u_t - ALPHA * u_xx


def initial(x):
    return torch.sin(math.pi * x) + 0.5 * torch.sin(3 * math.pi * x)


def causal_weights(res2, n_bins, tol=0.5):
    # residuals come sorted in time; a bin counts only when the earlier ones are small
    per_bin = res2.view(n_bins, -1).mean(dim=1)
    before = torch.cumsum(per_bin, dim=0) - per_bin
    return torch.exp(-tol * before).detach(), per_bin


def collocation(n):
    x = torch.rand(n)
    t, _ = torch.rand(n).sort()
    return x.requires_grad_(), t.requires_grad_()


net = Field()
log_w = nn.Parameter(torch.zeros(2))
opt = torch.optim.Adam([{"params": net.parameters(), "lr": 2e-3}, {"params": [log_w], "lr": 5e-2}])
ema = {k: v.clone() for k, v in net.state_dict().items()}

for step in range(1, 4):
    x, t = collocation(64)
    res = pde_residual(net, x, t)
    w, per_bin = causal_weights(res**2, 8)
    loss_pde = (w * per_bin).sum() / w.sum()
    x0 = torch.linspace(0, 1, 33)[1:-1]
    u0 = net(x0, torch.zeros_like(x0))
    loss_ic = (u0 - initial(x0)).pow(2).mean()
    losses = torch.stack([loss_pde, loss_ic])
    loss = (losses * torch.exp(-log_w)).sum() + log_w.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    for k, v in net.state_dict().items():
        ema[k].mul_(0.5).add_(v, alpha=0.5)
    with torch.no_grad():
        drift = sum((ema[k] - v).pow(2).sum() for k, v in net.state_dict().items())
    print(f"step {step} loss {loss.item() + drift.item():.9f}")
