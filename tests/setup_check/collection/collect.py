"""A training whose set-up is collected: ``python -m tests.setup_check.collection.collect ZIP VARIANT``."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import torch
from msprobe.core.config_check import ConfigChecker
from torch import nn


class Net(nn.Module):
    """A small model with a buffer and arguments of several kinds."""

    def __init__(self, extra: bool) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2)
        self.register_buffer("count", torch.zeros(1))
        if extra:
            self.extra = nn.Linear(2, 2)

    def forward(self, x: Any, mask: Any = None, more: Any = None, scale: float = 1) -> Any:
        """Return the result."""
        return self.last(self.norm(self.first(x)))


def train(path: str, variant: str) -> list[float]:
    """Train three steps with the check on, and return the gradients of the last."""
    ConfigChecker.apply_patches("pytorch")
    original = torch.randn
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    model = Net(variant == "extra")
    with torch.no_grad():
        if variant == "permuted":
            model.first.weight.copy_(model.first.weight.flip(0))
        if variant == "neighbours":
            model.first.weight.copy_(torch.nextafter(model.first.weight, torch.tensor(9.0)))
    if variant != "off":
        ConfigChecker(model=model, output_zip_path=path, arguments={"lr": 0.1})
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        x = torch.randn(5, 4) * (2 if variant == "data" else 1)
        if variant == "draws":
            np.random.rand(3)
        optimizer.zero_grad()
        model(x, mask=torch.ones(5), more={"ids": [torch.arange(3)]}, scale=2.0).sum().backward()
        optimizer.step()
    if variant != "off":
        assert torch.randn is not original, "random functions are as before after the first step"
    return [float(value) for value in torch.cat([p.grad.ravel() for p in model.parameters() if p.grad is not None])]


if __name__ == "__main__":
    if len(sys.argv) > 3:
        rank, size, store = sys.argv[3:6]
        torch.distributed.init_process_group("gloo", f"file://{store}", rank=int(rank), world_size=int(size))
    print("gradients:", train(sys.argv[1], sys.argv[2]))
