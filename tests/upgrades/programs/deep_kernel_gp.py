"""Exact Gaussian process regression on learned features; marginal likelihood minimised with L-BFGS."""

import math

import torch
from torch import nn
from torch.nn.functional import softplus

torch.set_default_dtype(torch.float64)
torch.manual_seed(19)


def inv_softplus(value):
    return torch.tensor(value).expm1().log()


class FeatureNet(nn.Module):
    def __init__(self, d_in, d_hidden=16, d_out=2):
        super().__init__()
        self.l1 = nn.Linear(d_in, d_hidden)
        self.l2 = nn.Linear(d_hidden, d_hidden)
        self.l3 = nn.Linear(d_hidden, d_out)
        self.norm = nn.LayerNorm(d_hidden)

    def forward(self, x):
        h = torch.tanh(self.l1(x))
        h = self.norm(h + torch.tanh(self.l2(h)))
        return self.l3(h)


class ScaledRBF(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.raw_length = nn.Parameter(inv_softplus(1.0).repeat(dim))
        self.raw_scale = nn.Parameter(inv_softplus(0.8))

    def forward(self, a, b):
        length = softplus(self.raw_length)
        a, b = a / length, b / length
        sq = a.square().sum(-1)[:, None] + b.square().sum(-1)[None] - 2 * a @ b.T
        return softplus(self.raw_scale) * torch.exp(-0.5 * sq)


class LinearKernel(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw_var = nn.Parameter(inv_softplus(0.3))

    def forward(self, a, b):
        return softplus(self.raw_var) * a @ b.T


class DeepKernelGP(nn.Module):
    def __init__(self, d_in):
        super().__init__()
        self.features = FeatureNet(d_in)
        self.rbf, self.linear = ScaledRBF(2), LinearKernel()
        self.mean = nn.Parameter(torch.zeros(()))
        self.raw_noise = nn.Parameter(inv_softplus(0.1))

    def covariance(self, x):
        z = self.features(x)
        k = self.rbf(z, z) + self.linear(z, z)
        noise = softplus(self.raw_noise) + 1e-4
        return k + noise * torch.eye(len(x))

    def forward(self, x, y):
        """Negative log marginal likelihood per point."""
        chol = torch.linalg.cholesky(self.covariance(x))
        resid = (y - self.mean).unsqueeze(-1)
        alpha = torch.cholesky_solve(resid, chol)
        fit = 0.5 * (resid * alpha).sum()
        complexity = chol.diagonal().log().sum()
        return (fit + complexity + 0.5 * len(x) * math.log(2 * math.pi)) / len(x)


def log_prior(model):
    """Log-normal prior on the length scales and on the noise."""
    length, noise = softplus(model.rbf.raw_length), softplus(model.raw_noise)
    return -0.5 * (length.log() ** 2).sum() - 0.5 * (noise.log() + 2.0) ** 2


def robot_arm(n, gen):
    x = torch.rand(n, 4, generator=gen) * 2 - 1
    y = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * (x[:, 3] > 0) + 0.1 * torch.randn(n, generator=gen)
    return x, y


gen = torch.Generator().manual_seed(14)
x, y = robot_arm(60, gen)
x_std, y_std = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
model = DeepKernelGP(4)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=4, history_size=5)
for step in range(3):

    def closure():
        optimizer.zero_grad()
        nll = model(x_std, y_std) - log_prior(model) / len(y_std)
        nll.backward()
        return nll

    loss = optimizer.step(closure)
    print(f"step {step} loss {loss.item():.9f}")
