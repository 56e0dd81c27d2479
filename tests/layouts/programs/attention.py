"""Attention with groups of queries, rotary positions, and keys and values gathered over context parallelism."""

import parallel_state as ps
import torch
from layers import GROUPS, HEAD, HEADS, HIDDEN, LENGTH, ColumnParallelLinear, RowParallelLinear
from mappings import gather_context
from torch import nn


def rotated(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Turn the features of queries or keys by the places of their tokens."""
    speed = torch.pow(100.0, -torch.arange(0, HEAD, 2) / HEAD)
    angle = torch.outer(places.float(), speed)[:, None, None, :]
    even, odd = x[..., 0::2], x[..., 1::2]
    cosine, sine = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


class CoreAttention(nn.Module):
    """Mixes values; a tensor has the axes sequence, sample, head, feature."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        k, v = (torch.repeat_interleave(x, q.shape[2] // x.shape[2], dim=2) for x in (k, v))
        scores = torch.matmul(q.permute(1, 2, 0, 3), k.permute(1, 2, 3, 0))
        scores = torch.mul(scores, HEAD**-0.5)
        scores = torch.masked_fill(scores, torch.logical_not(allowed), -10000.0)
        weights = torch.softmax(scores.float(), dim=-1).to(v.dtype)
        mixed = torch.matmul(weights, v.permute(1, 2, 0, 3))
        return mixed.permute(2, 0, 1, 3).flatten(2)


class SelfAttention(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        rows = HEAD * (HEADS // GROUPS + 2)
        self.linear_qkv = ColumnParallelLinear(f"{name}.linear_qkv", GROUPS * rows, HIDDEN)
        self.core_attention = CoreAttention()
        self.linear_proj = RowParallelLinear(f"{name}.linear_proj", HIDDEN, HEADS * HEAD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.linear_qkv(x).unflatten(-1, (-1, HEADS // GROUPS + 2, HEAD))
        q, k, v = torch.split(mixed, [HEADS // GROUPS, 1, 1], dim=-2)
        q, k, v = q.flatten(2, 3), k.flatten(2, 3), v.flatten(2, 3)
        places = ps.positions(LENGTH)
        q, k = rotated(q, places), rotated(k, places)
        k, v = gather_context(k), gather_context(v)
        every = gather_places(places)
        allowed = torch.ge(places[:, None], every[None, :])
        return self.linear_proj(self.core_attention(q, k, v, allowed))


def gather_places(own: torch.Tensor) -> torch.Tensor:
    """Return the places of all keys, in the order in which they are gathered."""
    return gather_context(own)
