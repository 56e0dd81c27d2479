"""AdamW with clipping: on all parameters of a rank, or on a shard of them that each data-parallel rank has (ZeRO-1)."""

from typing import Any

import parallel_state as ps
import torch
import torch.distributed as dist
from gradients import global_norm
from torch import nn

LARGEST_NORM = 4.2
OPTIONS = {"lr": 0.01, "eps": 1e-2, "weight_decay": 0.01}


def clip_factor(norm: torch.Tensor) -> torch.Tensor:
    return torch.clamp(torch.div(LARGEST_NORM, norm + 1e-6), max=1.0)


class Optimizer:
    """Keeps parameters in 32 bits where the model has fewer."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self.main = [
            each if each.dtype == torch.float32 else nn.Parameter(each.detach().float()) for each in parameters
        ]
        self.inner = torch.optim.AdamW(self.main, **OPTIONS)

    def step(self) -> None:
        factor = clip_factor(global_norm(self.parameters))
        for main, each in zip(self.main, self.parameters, strict=True):
            main.grad = torch.mul(each.grad.float(), factor)
        self.inner.step()
        with torch.no_grad():
            for main, each in zip(self.main, self.parameters, strict=True):
                if main is not each:
                    each.copy_(main)

    def zero_grad(self) -> None:
        for each in (*self.parameters, *self.main):
            each.grad = None


class ShardedOptimizer(Optimizer):
    """Each rank updates a part of all parameters, seen as one row, and gets the others from their ranks."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self.dp = ps.group("dp")
        self.shard = nn.Parameter(self.flat(parameters).chunk(self.dp.size)[self.dp.rank].clone())
        self.main = [self.shard]
        self.sharded = torch.optim.AdamW(self.main, **OPTIONS)

    def flat(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Return tensors as one row that can be cut evenly."""
        row = torch.cat([each.detach().flatten() for each in tensors])
        return nn.functional.pad(row, (0, -row.numel() % self.dp.size))

    def step(self) -> None:
        parts = [part.contiguous() for part in self.flat([each.grad for each in self.parameters]).chunk(self.dp.size)]
        gradient = torch.empty_like(parts[0])
        dist.reduce_scatter(gradient, parts, group=self.dp.handle)
        gradient = torch.div(gradient, self.dp.size)
        factor = clip_factor(self.norm(gradient))
        self.shard.grad = torch.mul(gradient, factor)
        self.sharded.step()
        parts = [torch.empty_like(self.shard) for _ in self.dp.ranks]
        dist.all_gather(parts, self.shard.detach(), group=self.dp.handle)
        row = torch.cat(parts)
        with torch.no_grad():
            for each, part in zip(self.parameters, row.split(self.sizes(row)), strict=False):
                each.copy_(part.view_as(each))

    def sizes(self, row: torch.Tensor) -> list[int]:
        sizes = [each.numel() for each in self.parameters]
        return [*sizes, row.numel() - sum(sizes)]

    def norm(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the norm of the gradients of the whole model; the copy of the embedding counts once."""
        squares = torch.sum(torch.square(gradient))
        dist.all_reduce(squares, group=self.dp.handle)
        if ps.group("pp").rank > 0:
            copies = [each.grad for each in self.parameters if each.cut.name == "embedding.weight"]
            squares = squares - sum(self.averaged_square(each) for each in copies)
        model = ps.group("model")
        dist.all_reduce(squares, group=model.handle)
        return torch.sqrt(squares)

    def averaged_square(self, gradient: torch.Tensor) -> torch.Tensor:
        average = torch.div(gradient, self.dp.size)
        dist.all_reduce(average, group=self.dp.handle)
        return torch.sum(torch.square(average))
