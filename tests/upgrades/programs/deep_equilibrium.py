"""A deep equilibrium model with an implicit gradient."""

import torch
import torch.nn as nn

torch.manual_seed(25)


class Cell(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.rec = nn.Linear(d, d, bias=False)
        self.inp = nn.Linear(4, d)
        with torch.no_grad():
            self.rec.weight.mul_(0.5)

    def forward(self, z, x):
        return torch.tanh(self.rec(z) + self.inp(x))


class FixedPoint(nn.Module):
    def __init__(self, cell, d, iters=60):
        super().__init__()
        self.cell, self.d, self.iters = cell, d, iters

    def forward(self, x):
        with torch.no_grad():
            z = x.new_zeros(len(x), self.d)
            for _ in range(self.iters):
                z = self.cell(z, x)
        z = self.cell(z, x)
        z0 = z.detach().requires_grad_()
        f0 = self.cell(z0, x.detach())

        def hook(grad):
            g = grad
            for _ in range(self.iters):
                g = torch.autograd.grad(f0, z0, g, retain_graph=True)[0] + grad
            return g

        z.register_hook(hook)
        return z


D = 10
model = nn.Sequential(FixedPoint(Cell(D), D), nn.Linear(D, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.2)
gen = torch.Generator().manual_seed(26)
for step in range(3):
    x = torch.randn(12, 4, generator=gen)
    y = torch.stack([x.sum(1), x.prod(1)], 1)
    loss = nn.functional.huber_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f} grad {model[0].cell.rec.weight.grad.norm().item():.9f}")
