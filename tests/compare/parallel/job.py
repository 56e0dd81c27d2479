"""One rank of a training on gloo: ``python -m tests.compare.parallel.job KIND RANK SIZE FOLDER [FAULT]``.

All kinds compute the same with the same weights: ``whole`` on one rank, ``tensor`` with hand-written column- and
row-parallel layers, ``dtensor`` with those of PyTorch, ``pipeline`` in two stages. With FAULT, the name of a parameter,
its share on the last rank is changed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from msprobe.pytorch import PrecisionDebugger

WIDTH, INNER, LAYERS = 8, 12, 4


class _Copy(torch.autograd.Function):
    """To all ranks; gradients add up."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class _Reduce(torch.autograd.Function):
    """Partial sums add up; the gradient is the same on all ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class ColumnParallelLinear(nn.Module):
    """Holds some rows of the weight; makes some features."""

    def __init__(self, whole: nn.Linear, rank: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(whole.weight.detach().chunk(size, 0)[rank].clone())
        self.bias = nn.Parameter(whole.bias.detach().chunk(size, 0)[rank].clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(_Copy.apply(x) if self.size > 1 else x, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Holds some columns of the weight; takes some features."""

    def __init__(self, whole: nn.Linear, rank: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(whole.weight.detach().chunk(size, 1)[rank].clone())
        self.bias = nn.Parameter(whole.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.weight)
        return (_Reduce.apply(y) if self.size > 1 else y) + self.bias


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
    """What ``dtensor`` cuts: ordinary layers."""

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
    if kind not in ("dtensor", "plain"):
        return Model(rank, size)
    model = Plain()
    if kind == "dtensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(model, init_device_mesh("cpu", (size,)), plan)
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
            dict(model.named_parameters())[fault][1] *= 1.5
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
