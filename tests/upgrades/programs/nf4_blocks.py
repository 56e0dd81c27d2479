"""Tabular ResNet with its frozen matrices in NF4 (packed codes, absmax per block); head, norms and biases train."""

import torch
import torch.nn.functional as F
from torch import nn

BLOCK = 32
NF4 = torch.tensor(
    [-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0]
    + [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]
)


class LinearNF4(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.shape = weight.shape
        blocks = weight.reshape(-1, BLOCK)
        absmax = blocks.abs().amax(dim=1)
        codes = (blocks / absmax[:, None]).unsqueeze(-1).sub(NF4).abs().argmin(dim=-1).to(torch.uint8).flatten()
        self.register_buffer("packed", codes[0::2] << 4 | codes[1::2])
        self.register_buffer("absmax", absmax)
        self.bias = nn.Parameter(bias.clone())

    def dequantise(self):
        high, low = self.packed >> 4, self.packed & 15
        codes = torch.stack([high, low], dim=-1).flatten().long()
        scale = self.absmax.repeat_interleave(BLOCK)
        return (NF4[codes] * scale).view(self.shape)

    def forward(self, x):
        return F.linear(x, self.dequantise(), self.bias)


class Residual(nn.Module):
    def __init__(self, state, prefix):
        super().__init__()
        dim = state[f"{prefix}.up.weight"].shape[1]
        self.norm = nn.LayerNorm(dim)
        self.up = LinearNF4(state[f"{prefix}.up.weight"], state[f"{prefix}.up.bias"])
        self.down = LinearNF4(state[f"{prefix}.down.weight"], state[f"{prefix}.down.bias"])

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


class TabularResNet(nn.Module):
    def __init__(self, state, depth=3):
        super().__init__()
        self.stem = LinearNF4(state["stem.weight"], state["stem.bias"])
        self.blocks = nn.ModuleList(Residual(state, f"blocks.{i}") for i in range(depth))
        self.norm = nn.LayerNorm(self.stem.shape[0])
        self.head = nn.Linear(self.stem.shape[0], 5)
        self.head.load_state_dict({"weight": state["head.weight"], "bias": state["head.bias"]})

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).relu())


def rows(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(32, 16, generator=g), torch.randint(0, 5, (32,), generator=g)


model = TabularResNet(torch.load("weights.pt"))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(3):
    x, y = rows(step)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
