"""Accelerate AC-2665: the optimizer holds the parameters from before the model was wrapped.

``fully_shard`` replaces each parameter by a sharded one. An optimizer that was made before it updates tensors that
the model no longer uses.
"""

from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, job, options

warnings.simplefilter("ignore")


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(F.relu(self.fc1(self.norm(x))))


class Network(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Linear(10, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def prepare(model: nn.Module, size: int) -> nn.Module:
    """Shard the layers and the rest over all ranks."""
    mesh = init_device_mesh("cpu", (size,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main() -> None:
    given = options()
    with job() as (rank, size):
        model = Network()
        if given.fault:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            prepare(model, size)
        else:
            prepare(model, size)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        probe = debugger(given)
        data = torch.Generator().manual_seed(rank)
        for _ in range(3):
            x = torch.randn(8, 10, generator=data)
            y = torch.randint(0, 3, (8,), generator=data)
            probe.start(model)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()  # planted
            model.zero_grad()
            probe.stop()
            probe.step()
        dist.barrier()


if __name__ == "__main__":
    main()
