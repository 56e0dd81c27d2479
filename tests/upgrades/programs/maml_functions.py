"""Meta-learning with plain functions of the weights of a model that is never called."""

import math

import torch
from torch import nn

TASKS, SHOTS, INNER, INNER_LR = 3, 8, 2, 0.05


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(1, 20), nn.Linear(20, 20), nn.Linear(20, 1)
        self.act = nn.Tanh()

    def forward(self, x):
        x = self.act(self.l1(x))
        x = self.act(self.l2(x))
        return self.l3(x)


def task():
    amp = 0.5 + 2 * torch.rand(1)
    phase = math.pi * torch.rand(1)
    x = torch.rand(2 * SHOTS, 1) * 6 - 3
    y = amp * torch.sin(x + phase)
    return x[:SHOTS], y[:SHOTS], x[SHOTS:], y[SHOTS:]


def apply(p, x):
    w1, b1, w2, b2, w3, b3 = p
    h = torch.tanh(x @ w1.t() + b1)
    h = torch.tanh(torch.addmm(b2, h, w2.t()))
    return nn.functional.linear(h, w3, b3)


def mse(a, b):
    return ((a - b) ** 2).sum() / a.numel()


def adapt(weights, x, y):
    for _ in range(INNER):
        grads = torch.autograd.grad(mse(apply(weights, x), y), weights, create_graph=True)
        weights = [torch.add(w, g, alpha=-INNER_LR) for w, g in zip(weights, grads)]
    return weights


torch.manual_seed(8)
model = Net()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for it in range(4):
    opt.zero_grad()
    meta = 0.0
    for _ in range(TASKS):
        xs, ys, xq, yq = task()
        fast = adapt(list(model.parameters()), xs, ys)
        loss = mse(apply(fast, xq), yq) / TASKS
        loss.backward()
        meta += loss.item()
    opt.step()
    print(f"it {it} meta {meta:.9f}")
