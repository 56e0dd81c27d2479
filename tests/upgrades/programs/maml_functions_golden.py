"""Meta-learning with functional_call."""

import math

import torch
from torch import nn
from torch.func import functional_call

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


def mse(a, b):
    return nn.functional.mse_loss(a, b)


def adapt(model, params, x, y):
    for _ in range(INNER):
        loss = mse(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
        params = {k: p - INNER_LR * g for (k, p), g in zip(params.items(), grads)}
    return params


torch.manual_seed(8)
model = Net()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for it in range(4):
    opt.zero_grad()
    meta = 0.0
    for _ in range(TASKS):
        xs, ys, xq, yq = task()
        fast = adapt(model, dict(model.named_parameters()), xs, ys)
        loss = mse(functional_call(model, fast, (xq,)), yq) / TASKS
        loss.backward()
        meta += loss.item()
    opt.step()
    print(f"it {it} meta {meta:.9f}")
