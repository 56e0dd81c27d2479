"""A Kolmogorov-Arnold network, trained with L-BFGS."""

import torch
import torch.nn as nn

torch.manual_seed(33)


class KANLayer(nn.Module):
    def __init__(self, n_in, n_out, grid=6, lo=-2.0, hi=2.0):
        super().__init__()
        self.register_buffer("centres", torch.linspace(lo, hi, grid))
        self.width = (hi - lo) / (grid - 1)
        self.coef = nn.Parameter(torch.randn(n_out, n_in, grid) * 0.3)
        self.base = nn.Parameter(torch.randn(n_out, n_in) / n_in**0.5)

    def basis(self, x):
        u = (x.unsqueeze(-1) - self.centres) / self.width
        return torch.exp(-(u**2))

    def forward(self, x):
        spline = torch.einsum("big,oig->bo", self.basis(x), self.coef)
        return spline + nn.functional.silu(x) @ self.base.t()


class KAN(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        self.layers = nn.ModuleList(KANLayer(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i + 1 < len(self.layers):
                x = 2 * torch.tanh(x / 2)
        return x

    def penalty(self):
        return sum(l.coef.abs().mean() for l in self.layers)


net = KAN(3, 5, 1)
opt = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3, history_size=3)
g = torch.Generator().manual_seed(34)
for step in range(3):
    x = torch.rand(20, 3, generator=g) * 2 - 1
    y = torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:]

    def closure():
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y) + 1e-2 * net.penalty()
        loss.backward()
        return loss

    loss = opt.step(closure)
    print(f"step {step} loss {loss.item():.9f}")
