"""Mixture of experts as a loop over modules against dense einsum over stacked weights."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
DIM, HID, E, K = 24, 32, 4, 2


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(DIM, E, bias=False)
        w1, w2 = torch.randn(E, DIM, HID) / DIM**0.5, torch.randn(E, HID, DIM) / HID**0.5
        self.w1, self.w2 = nn.Parameter(w1.clone()), nn.Parameter(w2.clone())

    def forward(self, x):
        flat = x.reshape(-1, DIM)
        probs = self.router(flat).softmax(-1)
        top, idx = probs.topk(K, dim=-1)
        gate = torch.zeros_like(probs).scatter(1, idx, top)
        gate = gate / gate.sum(-1, keepdim=True)
        hidden = F.silu(torch.einsum("nd,edh->neh", flat, self.w1))
        out = torch.einsum("neh,ehd,ne->nd", hidden, self.w2, gate)
        return out.view_as(x), probs


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(10, DIM)
        self.moe = MoE()
        self.norm = nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, 3)

    def forward(self, x):
        h = self.inp(x)
        m, probs = self.moe(h)
        return self.out(self.norm(h + m)), probs


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
gen = torch.Generator().manual_seed(1)
for step in range(3):
    x = torch.randn(2, 6, 10, generator=gen)
    y = torch.randint(0, 3, (2, 6), generator=gen)
    logits, probs = net(x)
    balance = E * (probs.mean(0) ** 2).sum()
    loss = F.cross_entropy(logits.transpose(1, 2), y) + 0.01 * balance
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f} router grad {net.moe.router.weight.grad.norm().item():.9f}")
