"""Layers that are cut over the ranks of tensor parallelism, norms, dropout and the loss."""

import zlib
from typing import Any

import parallel_state as ps
import torch
import torch.distributed as dist
import torch.nn.functional as F
from mappings import into_cut_layer, out_of_cut_layer
from quantised import linear
from torch import nn
from weights import parameter

HIDDEN, HEADS, GROUPS, HEAD, INNER, WORDS, LAYERS = 32, 8, 4, 4, 64, 32, 4
LENGTH, SAMPLES = 8, 8
"""Tokens of a sequence, and sequences of a step."""


class ColumnParallelLinear(nn.Module):
    """Has some rows of the weight and makes some features."""

    def __init__(self, name: str, *shape: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = parameter(f"{name}.weight", *shape, axis=len(shape) - 2)
        self.bias = parameter(f"{name}.bias", *shape[:-1], axis=len(shape) - 2) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = into_cut_layer(x)
        return linear(x, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Has some columns of the weight and takes some features; the bias is added to the sum, once."""

    def __init__(self, name: str, *shape: int) -> None:
        super().__init__()
        self.weight = parameter(f"{name}.weight", *shape, axis=1)
        self.bias = parameter(f"{name}.bias", shape[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = linear(x, self.weight)
        x = out_of_cut_layer(x)
        return torch.add(x, self.bias)


class VocabParallelEmbedding(nn.Module):
    """Has the vectors of some words."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.weight = parameter(f"{name}.weight", WORDS, HIDDEN, axis=0)
        self.count = WORDS // ps.group("tp").size
        self.start = self.count * ps.group("tp").rank

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if ps.group("tp").size == 1:
            return F.embedding(tokens, self.weight)
        foreign = (tokens < self.start) | (tokens >= self.start + self.count)
        own = torch.sub(tokens, self.start)
        own[foreign] = 0
        x = F.embedding(own, self.weight)
        x = torch.mul(x, torch.logical_not(foreign).unsqueeze(-1))
        return out_of_cut_layer(x)


class OutputLayer(nn.Module):
    """Makes logits of some words; the weight is that of the embedding, or a copy where that lies on another stage."""

    def __init__(self, name: str, own: bool) -> None:
        super().__init__()
        self.weight = parameter(f"{name}.weight", WORDS, HIDDEN, axis=0) if own else None

    def forward(self, x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        x = into_cut_layer(x)
        return F.linear(x, self.weight if weight is None else weight)


class RMSNorm(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.weight = parameter(f"{name}.weight", HIDDEN, scale=0.1, offset=1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (HIDDEN,), self.weight, 1e-5)


class LayerNorm(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.weight = parameter(f"{name}.weight", HIDDEN, scale=0.1, offset=1.0)
        self.bias = parameter(f"{name}.bias", HIDDEN, scale=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (HIDDEN,), self.weight, self.bias, 1e-5)


class Dropout(nn.Module):
    """Drops what a step, a layer and a place say, whatever the layout."""

    def __init__(self, site: str) -> None:
        super().__init__()
        self.site = site

    def forward(self, x: torch.Tensor, step: int, samples: torch.Tensor) -> torch.Tensor:
        source = torch.Generator().manual_seed(zlib.crc32(f"{self.site} {step}".encode()))
        whole = torch.rand(LENGTH, SAMPLES, HIDDEN, generator=source)
        mine = ps.norm_positions(LENGTH)
        kept = torch.gt(whole[mine][:, samples], 0.1)
        return torch.mul(x, kept.to(x.dtype) / 0.9)


class VocabParallelCrossEntropy(torch.autograd.Function):
    """The loss of each token from logits of some words."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        tp = ps.group("tp")
        logits = logits.float()
        largest = torch.amax(logits, dim=-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=tp.handle)
        logits = torch.sub(logits, largest.unsqueeze(-1))
        start = logits.shape[-1] * tp.rank
        foreign = (target < start) | (target >= start + logits.shape[-1])
        own = torch.masked_fill(target - start, foreign, 0)
        predicted = torch.gather(logits, -1, own.unsqueeze(-1)).squeeze(-1)
        predicted = torch.masked_fill(predicted, foreign, 0.0)
        dist.all_reduce(predicted, group=tp.handle)
        exponentials = torch.exp(logits)
        total = torch.sum(exponentials, dim=-1)
        dist.all_reduce(total, group=tp.handle)
        ctx.save_for_backward(exponentials / total.unsqueeze(-1), foreign, own)
        return torch.sub(torch.log(total), predicted)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        softmax, foreign, own = ctx.saved_tensors
        taken = torch.logical_not(foreign).to(softmax.dtype)
        result = torch.scatter_add(softmax, -1, own.unsqueeze(-1), -taken.unsqueeze(-1))
        return torch.mul(result, gradient.unsqueeze(-1)), None
