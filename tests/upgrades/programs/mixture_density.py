"""A network with a mixture of normal distributions as its output."""

import math

import torch
import torch.nn as nn

torch.manual_seed(11)


class MDN(nn.Module):
    def __init__(self, n_in=2, n_out=2, k=3):
        super().__init__()
        self.k, self.n_out = k, n_out
        self.trunk = nn.Sequential(nn.Linear(n_in, 20), nn.ELU(), nn.Linear(20, 20), nn.ELU())
        self.pi = nn.Linear(20, k)
        self.mu = nn.Linear(20, k * n_out)
        self.sigma = nn.Linear(20, k * n_out)

    def forward(self, x):
        h = self.trunk(x)
        log_pi = torch.log_softmax(self.pi(h), -1)
        mu = self.mu(h).view(-1, self.k, self.n_out)
        log_s = self.sigma(h).view(-1, self.k, self.n_out).clamp(-3, 3)
        return log_pi, mu, log_s


def nll(log_pi, mu, log_s, y):
    z = (y.unsqueeze(1) - mu) / log_s.exp()
    comp = (-0.5 * z**2 - log_s - 0.5 * math.log(2 * math.pi)).sum(-1)
    return -torch.logsumexp(log_pi + comp, -1).mean()


class Trainer:
    def __init__(self):
        self.net = MDN()
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=1e-3, momentum=0.9)
        self.gen = torch.Generator().manual_seed(12)

    def batch(self):
        x = torch.randn(24, 2, generator=self.gen)
        sign = torch.randint(0, 2, (24, 1), generator=self.gen) * 2 - 1
        return x, sign * x.flip(1) + 0.1 * torch.randn(24, 2, generator=self.gen)

    def step(self):
        x, y = self.batch()
        loss = nll(*self.net(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


trainer = Trainer()
for i in range(3):
    print(f"{i} nll {trainer.step():.9f}")
