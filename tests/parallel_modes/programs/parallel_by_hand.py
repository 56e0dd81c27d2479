"""Layers that are cut by hand, as Megatron cuts them: tensor parallelism (tp), and sequence parallelism on top (sp)."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from layers import WIDTH, batch, loss_of
from torch import nn

STEPS = 2


class Reduce(torch.autograd.Function):
    """Adds partial sums up; the gradient is the same on all ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Copy(torch.autograd.Function):
    """Passes a whole tensor on; its gradient is a partial sum on each rank."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Gather(torch.autograd.Function):
    """Puts the parts of the sequence together; the gradient is added up and cut."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        whole = torch.cat(parts, dim=1)
        return whole.contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        parts = [part.contiguous() for part in gradient.chunk(dist.get_world_size(), 1)]
        result = torch.empty_like(parts[0])
        dist.reduce_scatter(result, parts)
        return result


class Scatter(torch.autograd.Function):
    """Adds partial sums up and keeps a part of the sequence; the gradient is put together."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        parts = [part.contiguous() for part in x.chunk(dist.get_world_size(), 1)]
        result = torch.empty_like(parts[0])
        dist.reduce_scatter(result, parts)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, gradient.contiguous())
        return torch.cat(parts, dim=1)


class ColumnLinear(nn.Module):
    def __init__(self, rank: int, size: int, sequence: bool) -> None:
        super().__init__()
        whole = nn.Linear(WIDTH, 4 * WIDTH)
        self.weight, self.bias = (nn.Parameter(each.detach().chunk(size)[rank].clone()) for each in whole.parameters())
        self.sequence = sequence

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = Gather.apply(x) if self.sequence else Copy.apply(x)
        return F.linear(x, self.weight, self.bias)


class RowLinear(nn.Module):
    def __init__(self, rank: int, size: int, sequence: bool) -> None:
        super().__init__()
        whole = nn.Linear(4 * WIDTH, WIDTH)
        self.weight = nn.Parameter(whole.weight.detach().chunk(size, 1)[rank].clone())
        self.bias = nn.Parameter(whole.bias.detach().clone())
        self.sequence = sequence

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.linear(x, self.weight)
        x = Scatter.apply(x) if self.sequence else Reduce.apply(x)
        return torch.add(x, self.bias)


class Mlp(nn.Module):
    def __init__(self, *cut: Any) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = ColumnLinear(*cut), RowLinear(*cut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(self.norm(x))
        y = F.gelu(y)
        return x + self.down(y)


class Net(nn.Module):
    def __init__(self, rank: int, size: int, sequence: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.rank, self.size, self.sequence = rank, size, sequence
        self.embed = nn.Embedding(11, WIDTH)
        self.layers = nn.Sequential(*(Mlp(rank, size, sequence) for _ in range(2)))
        self.head = nn.Linear(WIDTH, 7)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.sequence:
            tokens = tokens.chunk(self.size, 1)[self.rank]
        return self.head(self.layers(self.embed(tokens)))


def reduce_whole(model: Net) -> None:
    """Add up the gradients of what every rank has as a whole, and uses for its part of the sequence."""
    for name, parameter in model.named_parameters():
        if not name.endswith(("up.weight", "up.bias", "down.weight")):
            dist.all_reduce(parameter.grad)


def train(kind: str, rank: int, size: int, debugger: Any) -> None:
    model = Net(rank, size, kind == "sp")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        debugger.start(model)
        tokens, goal = batch(step)
        goal = goal.chunk(size, 1)[rank] if kind == "sp" else goal
        loss_of(model(tokens), goal).backward()
        if kind == "sp":
            reduce_whole(model)
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
