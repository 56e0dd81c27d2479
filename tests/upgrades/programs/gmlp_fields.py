"""gMLP with spatial gating units, tokens last and the spatial projection as a 1x1 convolution over the tokens."""

import torch
import torch.nn.functional as F
from torch import nn


class SpatialGatingUnit(nn.Module):
    def __init__(self, hidden, tokens):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.proj = nn.Conv1d(tokens, tokens, kernel_size=1)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        v = self.proj(self.norm(v))
        return u * v


class Block(nn.Module):
    def __init__(self, dim, hidden, tokens):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * hidden)
        self.gate = SpatialGatingUnit(hidden, tokens)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        shortcut = x
        x = F.gelu(self.fc1(self.norm(x)))
        x = self.fc2(self.gate(x))
        return shortcut + x


class GMLP(nn.Module):
    def __init__(self, size=24, patch=6, channels=3, dim=24, hidden=32, depth=3, classes=7):
        super().__init__()
        self.patch = nn.Conv2d(channels, dim, patch, stride=patch)
        tokens = (size // patch) ** 2
        self.blocks = nn.Sequential(*(Block(dim, hidden, tokens) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = self.blocks(x)
        return self.head(self.norm(x).mean(dim=1))


def from_functional(params):
    """The functional program keeps its parameters in one flat dictionary, matrices as [in, out]."""
    state = {
        "patch.weight": params["embed.w"].t().reshape(-1, 6, 6, 3).permute(0, 3, 1, 2),
        "patch.bias": params["embed.b"],
        "norm.weight": params["final.scale"],
        "norm.bias": params["final.shift"],
        "head.weight": params["head.w"].t(),
        "head.bias": params["head.b"],
    }
    for layer in range(3):
        old, new = f"layer{layer}", f"blocks.{layer}"
        state[f"{new}.norm.weight"] = params[f"{old}.scale"]
        state[f"{new}.norm.bias"] = params[f"{old}.shift"]
        state[f"{new}.fc1.weight"] = torch.cat([params[f"{old}.wu"], params[f"{old}.wv"]], dim=1).t()
        state[f"{new}.fc1.bias"] = torch.cat([params[f"{old}.bu"], params[f"{old}.bv"]])
        state[f"{new}.gate.norm.weight"] = params[f"{old}.gate_scale"]
        state[f"{new}.gate.norm.bias"] = params[f"{old}.gate_shift"]
        state[f"{new}.gate.proj.weight"] = params[f"{old}.spatial"].unsqueeze(-1)
        state[f"{new}.gate.proj.bias"] = params[f"{old}.spatial_b"]
        state[f"{new}.fc2.weight"] = params[f"{old}.wo"].t()
        state[f"{new}.fc2.bias"] = params[f"{old}.bo"]
    return state


def batch(step):
    g = torch.Generator().manual_seed(step)
    images = torch.randn(8, 3, 24, 24, generator=g)
    return images, torch.randint(0, 7, (8,), generator=g)


torch.manual_seed(0)
model = GMLP()
model.load_state_dict(from_functional(torch.load("weights.pt")))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(3):
    images, labels = batch(step)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.9f}")
