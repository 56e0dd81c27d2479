"""LSTM inference in float32 against bfloat16."""

import torch
from torch import nn

torch.manual_seed(6)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(4, 16)
        self.rnn = nn.LSTM(16, 24, batch_first=True)
        self.head = nn.Sequential(nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        y, (h, c) = self.rnn(self.inp(x))
        return self.head(h[-1])


m = Forecaster()
m = m.to(torch.bfloat16)
g = torch.Generator().manual_seed(6)
with torch.no_grad():
    for i in range(3):
        x = torch.randn(6, 12, 4, generator=g).to(next(m.parameters()).dtype)
        y = m(x).float()
        print(f"{i} mean abs {y.abs().mean().item():.9f} max {y.abs().max().item():.9f}")
