"""A selective state space model."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)


class SelectiveScan(nn.Module):
    def __init__(self, width, state):
        super().__init__()
        self.log_decay = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(width, 1))
        self.to_step = nn.Linear(width, width)
        self.to_bc = nn.Linear(width, 2 * state)
        self.skip = nn.Parameter(torch.ones(width))
        self.state = state

    def forward(self, u):
        step = F.softplus(self.to_step(u))
        b, c = self.to_bc(u).split(self.state, dim=-1)
        decay = torch.exp(-step.unsqueeze(-1) * self.log_decay.exp())
        drive = (step * u).unsqueeze(-1) * b.unsqueeze(2)
        h = torch.zeros_like(drive[:, 0])
        out = []
        for t in range(u.shape[1]):
            h = decay[:, t] * h + drive[:, t]
            out.append((h * c[:, t].unsqueeze(1)).sum(-1))
        return torch.stack(out, dim=1) + self.skip * u


class Layer(nn.Module):
    def __init__(self, width, state):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 2 * width)
        self.conv = nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.scan = SelectiveScan(width, state)
        self.outer = nn.Linear(width, width)

    def forward(self, x):
        value, gate = self.inner(self.norm(x)).chunk(2, -1)
        value = self.conv(value.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        y = self.scan(F.silu(value)) * F.silu(gate)
        return x + self.outer(y)


class SSM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.layers = nn.ModuleList([Layer(16, 4) for _ in range(2)])
        self.head = nn.Linear(16, 32)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model = SSM()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
gen = torch.Generator().manual_seed(2)
for step in range(3):
    ids = torch.randint(0, 32, (2, 12), generator=gen)
    logits = model(ids)
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
