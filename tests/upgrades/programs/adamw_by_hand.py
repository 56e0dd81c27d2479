"""torch AdamW against an own optimizer class and cross entropy by hand."""

import torch
from torch import nn

torch.manual_seed(13)
model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.LayerNorm(24), nn.Linear(24, 5))


class HandAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr, b1=0.9, b2=0.99, eps=1e-8, wd=0.1):
        super().__init__(params, dict(lr=lr, b1=b1, b2=b2, eps=eps, wd=wd))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].lerp_(p.grad, 1 - group["b1"])
                s["v"].mul_(group["b2"]).addcmul_(p.grad, p.grad, value=1 - group["b2"])
                m_hat = s["m"] / (1 - group["b1"] ** s["t"])
                v_hat = s["v"] / (1 - group["b2"] ** s["t"])
                p.mul_(1 - group["lr"] * group["wd"])
                p.sub_(group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]))


optimizer = HandAdamW(model.parameters(), lr=1e-2)

gen = torch.Generator().manual_seed(2)
for step in range(3):
    x = torch.randn(6, 12, generator=gen)
    y = torch.randint(0, 5, (6,), generator=gen)
    loss = -model(x).log_softmax(-1).gather(1, y[:, None]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f} weights {sum(p.abs().sum().item() for p in model.parameters()):.9f}")
