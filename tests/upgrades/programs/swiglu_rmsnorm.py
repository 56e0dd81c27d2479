"""SwiGLU fused against separate and own RMSNorm against nn.RMSNorm."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return x * scale * self.weight


class GatedMLP(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        gate, up = nn.Linear(d, hidden, bias=False), nn.Linear(d, hidden, bias=False)
        self.gate_up = nn.utils.skip_init(nn.Linear, d, 2 * hidden, bias=False)
        self.gate_up.weight.data.copy_(torch.cat([gate.weight, up.weight]).detach())
        self.down = nn.Linear(hidden, d, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.norms = nn.ModuleList([Norm(32) for _ in range(3)])
        self.mlps = nn.ModuleList([GatedMLP(32, 48) for _ in range(3)])
        self.final = Norm(32)
        self.head = nn.Linear(32, 64, bias=False)
        with torch.no_grad():
            for n in self.norms:
                n.weight.add_(0.1 * torch.randn(32))

    def forward(self, ids):
        x = self.embed(ids).cumsum(1)
        for n, m in zip(self.norms, self.mlps):
            x = x + m(n(x))
        return self.head(self.final(x))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
gen = torch.Generator().manual_seed(0)
for step in range(3):
    ids = torch.randint(0, 64, (2, 10), generator=gen)
    logits = model(ids)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 64), ids[:, 1:].reshape(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step={step} loss={loss.item():.9f}")
