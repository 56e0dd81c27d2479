"""Ways to shard a model over two ranks; each is trained alone and observed. Part of the job of two processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

from msprobe.pytorch import PrecisionDebugger

STEPS = 3
IDLE = 1
"""The step between the others in which nothing is started."""


class Block(nn.Module):
    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.up = nn.Linear(4, 6)
        self.act = nn.ReLU(inplace=in_place)
        self.down = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.down(self.act(self.up(x)))
        return result


class Net(nn.Module):
    def __init__(self, in_place: bool = True, checkpointed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.blocks = nn.ModuleList([Block(in_place) for _ in range(2)])
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)
        self.checkpointed = checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        result: torch.Tensor = self.head(self.norm(x))
        return result


def sharded(net: Net, **options: Any) -> Net:
    for block in net.blocks:
        fully_shard(block, **options)
    fully_shard([net.norm, net.head], **options)  # two modules in one group
    fully_shard(net, **options)
    return net


def replicated_and_sharded() -> Net:
    return sharded(Net(), mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicas", "shards")))


def compiled() -> Net:
    net = sharded(Net())
    for block in net.blocks:
        block.compile(backend="aot_eager")
    return net


def tensor_parallel() -> Net:
    net, mesh = Net(in_place=False), init_device_mesh("cpu", (2,))
    for block in net.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return net


KINDS: dict[str, Callable[[], Net]] = {
    "groups": lambda: sharded(Net()),
    "toggled": lambda: sharded(Net()),
    "checkpointed": lambda: sharded(Net(checkpointed=True)),
    "mixed_precision": lambda: sharded(Net(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)),
    "kept_whole": lambda: sharded(Net(), reshard_after_forward=False),
    "replicated": replicated_and_sharded,
    "compiled": compiled,
    "tensor_parallel": tensor_parallel,
}


def train(kind: str, probe: Any, rank: int) -> tuple[list[float], dict[str, Any]]:
    """Losses and final parameters; the extremes of every gradient in the last step."""
    net = KINDS[kind]()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    numbers: list[float] = []
    torch.manual_seed(rank)
    for step in range(STEPS):
        if probe is not None and step != IDLE:
            probe.start(model=net)
        loss = net(torch.randn(3, 4)).square().mean()
        if probe is not None and kind == "toggled" and step != IDLE:
            probe.stop()
            net(torch.ones(1, 4))  # not recorded
            probe.start(model=net)
        loss.backward()
        gradients = {name: extremes(parameter.grad) for name, parameter in net.named_parameters()}
        optimizer.step()
        optimizer.zero_grad()
        if probe is not None:
            probe.stop()
            probe.step()
        numbers.append(loss.item())
    return numbers + [number for parameter in net.parameters() for number in local(parameter).tolist()], gradients


def local(tensor: Any) -> torch.Tensor:
    part: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part.detach().flatten()


def extremes(tensor: Any) -> list[float | None]:
    part = local(tensor)
    return [part.max().item(), part.min().item()] if part.numel() else [None, None]


def run(folder: Path, rank: int) -> dict[str, Any]:
    """What each kind of training gave, by name."""
    seen = {}
    for kind in KINDS:
        alone, _ = train(kind, None, rank)
        PrecisionDebugger._instance = None
        probe = PrecisionDebugger({"dump_path": str(folder / kind), "level": "mix"})
        observed, gradients = train(kind, probe, rank)
        seen[kind] = {"alone": alone, "observed": observed, "gradients": gradients}
    return seen
