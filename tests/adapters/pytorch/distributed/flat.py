"""Models in ``FullyShardedDataParallel``, which keeps the parameters of several modules in one flat one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy

from msprobe.pytorch import PrecisionDebugger

CPU = torch.device("cpu")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.up = nn.Linear(3, 5)  # sizes that have to be padded
        self.act = nn.ReLU(inplace=True)
        self.down = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(self.act(self.up(x)))
        return result


def wrapped(net: nn.Module, **options: Any) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NO_SHARD is on its way out
        return FullyShardedDataParallel(net, use_orig_params=True, device_id=CPU, **options)


def nested() -> nn.Module:
    net = Net()
    net.up = wrapped(net.up)
    return wrapped(net)


KINDS: dict[str, Callable[[], nn.Module]] = {
    "flat": lambda: wrapped(Net()),
    "flat_nested": nested,
    "flat_not_sharded": lambda: wrapped(Net(), sharding_strategy=ShardingStrategy.NO_SHARD),
    "flat_mixed_precision": lambda: wrapped(Net(), mixed_precision=MixedPrecision(param_dtype=torch.bfloat16)),
}


def train(kind: str, probe: Any, rank: int) -> list[float]:
    """Losses, and the parts of the parameters that this rank has in the end."""
    model = KINDS[kind]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numbers = []
    for _ in range(2):
        if probe is not None:
            probe.start(model=model)
        loss = model(batch(rank)).square().mean()
        loss.backward()
        if probe is not None:
            probe.stop()
            probe.step()
        optimizer.step()
        optimizer.zero_grad()
        numbers.append(loss.item())
    return numbers + [number for parameter in model.parameters() for number in parameter.detach().flatten().tolist()]


def batch(rank: int) -> torch.Tensor:
    return torch.linspace(-1, 1 + rank, 12).reshape(4, 3)


def gradients(rank: int) -> dict[str, list[float]]:
    """The extremes of each gradient of the model alone, by the path of its parameter."""
    net = Net()
    net(batch(rank)).square().mean().backward()
    found = {name: parameter.grad for name, parameter in net.named_parameters()}
    return {name: [grad.max().item(), grad.min().item()] for name, grad in found.items() if grad is not None}


def run(folder: Path, rank: int) -> dict[str, Any]:
    seen: dict[str, Any] = {"gradients": gradients(rank)}
    for kind in KINDS:
        alone = train(kind, None, rank)
        PrecisionDebugger._instance = None
        probe = PrecisionDebugger({"dump_path": str(folder / kind), "level": "mix"})
        seen[kind] = {"alone": alone, "observed": train(kind, probe, rank)}
    return seen
