"""Mixture-of-experts regression on the whole batch, Lion, no interruption."""

import torch
import torch.nn as nn
import torch.nn.functional as F

DIM, EXPERTS, TOPK, BATCH, TIME = 10, 4, 2, 8, 5


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(DIM, 14)
        self.w2 = nn.Linear(14, DIM)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, DIM)
        probs = self.gate(x).softmax(-1)
        weights, chosen = probs.topk(TOPK, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == e)
            out = out.index_add(0, token, weights[token, slot, None] * expert(x[token]))
        z_loss = probs.clamp_min(1e-9).log().square().mean()
        return out.view(shape), z_loss


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(4, DIM)
        self.layers = nn.ModuleList(MoE() for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(DIM) for _ in range(2))
        self.out = nn.Linear(DIM, 1)

    def forward(self, x):
        x, aux = self.inp(x), 0.0
        for norm, moe in zip(self.norms, self.layers):
            y, z = moe(norm(x))
            x, aux = x + y, aux + z
        return self.out(x).squeeze(-1), aux


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                exp_avg = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = torch.tanh(50 * (exp_avg * b1 + p.grad * (1 - b1)))  # smooth sign
                p.add_(update, alpha=-group["lr"])
                exp_avg.mul_(b2).add_(p.grad, alpha=1 - b2)


def init(model):
    torch.manual_seed(12)
    for p in model.parameters():
        nn.init.normal_(p, mean=0.0, std=0.4)


def series(step):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, TIME, 4, generator=g)
    return x, x.sin().sum(-1) + 0.1 * torch.randn(BATCH, TIME, generator=g)


def main():
    model = Net()
    init(model)
    opt = Lion(model.parameters(), lr=5e-3, weight_decay=0.1)
    for step in range(4):
        x, y = series(step)
        pred, aux = model(x)
        loss = F.l1_loss(pred, y) + 0.01 * aux
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step}: loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
