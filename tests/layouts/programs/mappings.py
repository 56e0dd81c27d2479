"""What goes between ranks inside of a layer, with its gradient."""

from typing import Any

import parallel_state as ps
import torch
import torch.distributed as dist


def all_reduced(x: torch.Tensor, kind: str) -> torch.Tensor:
    """Return the sum over the ranks of a group."""
    x = x.clone()
    dist.all_reduce(x, group=ps.group(kind).handle)
    return x


def gathered(x: torch.Tensor, kind: str) -> torch.Tensor:
    """Return the parts of all ranks of a group, along the sequence."""
    group = ps.group(kind)
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in group.ranks]
    dist.all_gather(parts, x.contiguous(), group=group.handle)
    return torch.cat(parts, dim=0)


def reduce_scattered(x: torch.Tensor, kind: str) -> torch.Tensor:
    """Return this rank's part of the sum, along the sequence."""
    group = ps.group(kind)
    parts = [part.contiguous() for part in x.chunk(group.size, dim=0)]
    result = torch.empty_like(parts[0])
    dist.reduce_scatter(result, parts, group=group.handle)
    return result


class CopyToRegion(torch.autograd.Function):
    """A whole tensor goes into a layer that is cut; its gradient adds up."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return all_reduced(gradient, "tp")


class ReduceFromRegion(torch.autograd.Function):
    """Partial sums come out of a layer that is cut."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return all_reduced(x, "tp")

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class GatherSequence(torch.autograd.Function):
    """The parts of a sequence are put together; the gradient adds up and is cut again."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, kind: str) -> torch.Tensor:
        ctx.kind = kind
        return gathered(x, kind)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return reduce_scattered(gradient, ctx.kind), None


class ReduceScatterSequence(torch.autograd.Function):
    """Partial sums add up and the sequence is cut; the gradient is put together."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return reduce_scattered(x, "tp")

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gathered(gradient, "tp")


class AllToAll(torch.autograd.Function):
    """Rows go to the ranks of expert parallelism that have their experts, or back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
        ctx.splits = sent, received
        result = x.new_empty(sum(received), x.shape[1])
        dist.all_to_all_single(result, x.contiguous(), received, sent, group=ps.group("ep").handle)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        sent, received = ctx.splits
        result = gradient.new_empty(sum(sent), gradient.shape[1])
        dist.all_to_all_single(result, gradient.contiguous(), sent, received, group=ps.group("ep").handle)
        return result, None, None


def into_cut_layer(x: torch.Tensor) -> torch.Tensor:
    """Bring activations into a layer whose weight is cut by its outputs."""
    if ps.group("tp").size == 1:
        return x
    return GatherSequence.apply(x, "tp") if ps.LAYOUT.sequence else CopyToRegion.apply(x)


def out_of_cut_layer(x: torch.Tensor) -> torch.Tensor:
    """Bring partial sums out of a layer whose weight is cut by its inputs."""
    if ps.group("tp").size == 1:
        return x
    return ReduceScatterSequence.apply(x) if ps.LAYOUT.sequence else ReduceFromRegion.apply(x)


def gather_context(x: torch.Tensor) -> torch.Tensor:
    """Put together the keys or values of a whole sequence."""
    return GatherSequence.apply(x, "cp") if ps.group("cp").size > 1 else x
