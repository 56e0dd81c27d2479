"""Linear layers cut over the ranks of a job, written by hand as training frameworks write them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class CopyInput(torch.autograd.Function):
    """To all ranks; gradients add up."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class ReduceOutput(torch.autograd.Function):
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
        return F.linear(CopyInput.apply(x) if self.size > 1 else x, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Holds some columns of the weight; takes some features. A bias is added once, to the sum."""

    def __init__(self, whole: nn.Linear, rank: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(whole.weight.detach().chunk(size, 1)[rank].clone())
        self.bias = None if whole.bias is None else nn.Parameter(whole.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.weight)
        y = ReduceOutput.apply(y) if self.size > 1 else y
        return y if self.bias is None else y + self.bias
