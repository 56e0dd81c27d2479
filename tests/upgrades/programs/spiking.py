"""A spiking network with surrogate gradients."""

import torch
import torch.nn as nn

torch.manual_seed(29)


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (v,) = ctx.saved_tensors
        return grad / (1 + 5 * v.abs()) ** 2


class LIF(nn.Module):
    def __init__(self, n, leak=0.8):
        super().__init__()
        self.leak = nn.Parameter(torch.full((n,), leak))
        self.threshold = 0.5

    def forward(self, current, state):
        v, s = state
        v = self.leak * v * (1 - s) + current
        s = Spike.apply(v - self.threshold)
        return v, s


class SNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.n1 = nn.Linear(8, 20), LIF(20)
        self.l2, self.n2 = nn.Linear(20, 20), LIF(20)
        self.read = nn.Linear(20, 4)

    def forward(self, x):
        B, T, _ = x.shape
        s1 = (x.new_zeros(B, 20), x.new_zeros(B, 20))
        s2 = (x.new_zeros(B, 20), x.new_zeros(B, 20))
        total = 0
        for t in range(T):
            s1 = self.n1(2 * self.l1(x[:, t]), s1)
            s2 = self.n2(3 * self.l2(s1[1]), s2)
            total = total + self.read(s2[1])
        return total / T


net = SNN()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
g = torch.Generator().manual_seed(30)
for step in range(3):
    x = (torch.rand(6, 8, 8, generator=g) < 0.4).float()
    y = torch.randint(0, 4, (6,), generator=g)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    norm = sum(p.grad.norm() for p in net.parameters())
    opt.step()
    print(f"step {step} loss {loss.item():.9f} grad {norm.item():.9f}")
