"""One rank of a training on gloo: ``python -m tests.compare.parallel.job KIND RANK SIZE FOLDER [FAULT]``.

All kinds compute the same with the same weights: ``whole`` on one rank, ``tensor`` with hand-written column- and
row-parallel layers, ``dtensor`` with those of PyTorch, ``fsdp`` with sharded parameters, ``pipeline`` in two stages.
With FAULT, the name of a parameter, its share on the last rank is changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from msprobe.pytorch import PrecisionDebugger
from tests.parallel_layers import ColumnParallelLinear, RowParallelLinear

WIDTH, INNER, LAYERS = 8, 12, 4


class Layer(nn.Module):
    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = ColumnParallelLinear(nn.Linear(WIDTH, INNER), rank, size)
        self.act = nn.GELU()
        self.down = RowParallelLinear(nn.Linear(INNER, WIDTH), rank, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Model(nn.Module):
    """``first`` and ``last`` say which layers are here: all, or those of a stage, numbered from 0."""

    def __init__(self, rank: int, size: int, part: slice = slice(None)) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(rank, size) for _ in range(LAYERS)][part])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Plain(nn.Module):
    """What ``dtensor`` and ``fsdp`` cut: ordinary layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, INNER)
        self.act = nn.GELU()
        self.down = nn.Linear(INNER, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.act(self.up(self.norm(x))))


def build(kind: str, rank: int, size: int) -> nn.Module:
    torch.manual_seed(0)
    if kind == "pipeline":
        half = LAYERS // size
        return Model(0, 1, slice(half * rank, half * (rank + 1)))
    if kind not in ("dtensor", "fsdp", "plain"):
        return Model(rank, size)
    model = Plain()
    if kind == "dtensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(model, init_device_mesh("cpu", (size,)), plan)
    if kind == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        for module in (model.up, model.down, model):
            fully_shard(module, mesh=init_device_mesh("cpu", (size,)))
    return model


def train(kind: str, model: nn.Module, rank: int, size: int) -> None:
    torch.manual_seed(1)
    x = torch.randn(3, 5, WIDTH)
    if kind != "pipeline":
        model(x).square().sum().backward()
    elif rank == 0:
        y = model(x)
        dist.send(y.detach(), 1)
        gradient = torch.empty_like(y)
        dist.recv(gradient, 1)
        y.backward(gradient)
    else:
        dist.recv(x, 0)
        x.requires_grad_()
        model(x).square().sum().backward()
        dist.send(x.grad, 0)


def main(kind: str, rank: int, size: int, folder: Path, fault: str) -> None:
    if size > 1:
        store = f"file://{folder.parent / (folder.name + '.store')}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    model = build(kind, rank, size)
    if fault and rank == size - 1:
        with torch.no_grad():
            share = dict(model.named_parameters())[fault]
            getattr(share, "to_local", lambda: share)()[1] *= 1.5
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    debugger.start(model, rank_id=rank)
    train(kind, model, rank, size)
    debugger.stop()
    debugger.step()
    if size > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), "".join(sys.argv[5:]))
