"""MLP-Mixer training in float32 against bfloat16."""

import torch
from torch import nn

torch.manual_seed(520)


class Mix(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.tok = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
        self.ch = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ch(self.n2(x))


body = nn.Sequential(Mix(9, 16), Mix(9, 16), nn.LayerNorm(16))
head = nn.Linear(16, 5)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.body, self.head = nn.Conv2d(3, 16, 4, 4), body, head

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.body(x).mean(1))


model = Model()
model = model.to(torch.bfloat16)
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
g = torch.Generator().manual_seed(521)
for step in range(3):
    x = torch.randn(4, 3, 12, 12, generator=g)
    y = torch.randint(0, 5, (4,), generator=g)
    out = model(x.to(model.head.weight.dtype)).float()
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.9f}")
