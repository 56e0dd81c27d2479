"""What becomes of gradients after the backward passes: sums over ranks that share a parameter, and their norm."""

from collections.abc import Iterator
from typing import Any

import parallel_state as ps
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

BUCKET = 4000
"""Elements of a bucket."""


def finalize(chunks: list[nn.Module]) -> None:
    """Make the gradients of this rank those of the whole batch."""
    parameters: list[Any] = [each for chunk in chunks for each in chunk.parameters()]
    if ps.LAYOUT.sequence:
        reduce_partial(parameters)
    if ps.group("pp").size > 1:
        reduce_embedding(chunks)
    if ps.LAYOUT.data == "buckets" and ps.group("dp_cp").size > 1:
        reduce_data([each for each in parameters if not each.expert], "dp_cp")
        reduce_data([each for each in parameters if each.expert], "expert_dp_cp")


def reduce_partial(parameters: list[Any]) -> None:
    """Add up gradients of parameters that each rank uses for a part of the sequence."""
    gradients = [each.grad for each in parameters if each.partial]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat, group=ps.group("tp").handle)
    for gradient, part in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def reduce_embedding(chunks: list[Any]) -> None:
    """Add up the gradients of the embedding, which the first and the last stage have."""
    weight = chunks[0].embedding.weight if chunks[0].first else None
    weight = chunks[-1].output_layer.weight if chunks[-1].last else weight
    if weight is not None:
        dist.all_reduce(weight.grad, group=ps.group("embedding").handle)


def buckets(parameters: list[Any]) -> Iterator[list[Any]]:
    found: list[Any] = []
    for each in reversed(parameters):
        found.append(each)
        if sum(one.numel() for one in found) >= BUCKET:
            yield found
            found = []
    if found:
        yield found


def reduce_data(parameters: list[Any], kind: str) -> None:
    """Average gradients over the samples of all ranks."""
    for bucket in buckets(parameters):
        flat = torch.cat([each.grad.flatten() for each in bucket])
        flat = torch.div(flat, ps.group("dp_cp").size)
        dist.all_reduce(flat, group=ps.group(kind).handle)
        for each, part in zip(bucket, flat.split([each.numel() for each in bucket]), strict=True):
            each.grad.copy_(part.view_as(each))


def squares(parameters: list[Any]) -> torch.Tensor:
    """Return the sum of squares of those gradients of this rank that no other rank counts."""
    tp, pp = ps.group("tp"), ps.group("pp")
    total = torch.zeros(1)
    for each in parameters:
        copy = each.cut.count == 1 and tp.rank > 0
        tied = each.cut.name == "embedding.weight" and pp.rank > 0
        if not copy and not tied:
            total = total + torch.sum(torch.square(each.grad.float()))
    return total


def global_norm(parameters: list[Any]) -> torch.Tensor:
    """Return the norm of the gradients of the whole model."""
    if any(isinstance(each, DTensor) for each in parameters):
        return nn.utils.get_total_norm([each.grad for each in parameters])
    total = squares([each for each in parameters if each.expert])
    dist.all_reduce(total, group=ps.group("ep").handle)
    total = total + squares([each for each in parameters if not each.expert])
    dist.all_reduce(total, group=ps.group("model").handle)
    return torch.sqrt(total)
