"""A small decoder-only transformer over bytes: embedding, RMSNorm, rotary causal attention, MLP, tied head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the model; `width` must be divisible by `heads`, and the quotient must be even."""

    vocabulary: int = 256
    width: int = 64
    heads: int = 4
    blocks: int = 3
    context: int = 64


class RMSNorm(nn.Module):
    """Scales each position to root mean square 1, then by a learned weight."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight


class Rotary(nn.Module):
    """Rotary position embedding: rotates pairs of channels by an angle that grows with the position."""

    def __init__(self, channels: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.channels = channels
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, heads, positions, channels), rotated to the same shape."""
        exponent = torch.arange(0, self.channels, 2, dtype=torch.float32) / self.channels
        angle = torch.outer(torch.arange(x.shape[-2], dtype=torch.float32), self.base**-exponent)
        cos, sin = torch.cos(angle), torch.sin(angle)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Attention(nn.Module):
    """Causal self-attention, written out so that every step of it is a recorded operation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.first_hidden = 1  # a position sees itself (distance 0) and the past, nothing from distance 1 on
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.rotary = Rotary(width // heads)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, positions, width = x.shape
        heads = self.qkv(x).view(batch, positions, 3 * self.heads, width // self.heads).transpose(1, 2)
        query, key, value = heads.chunk(3, dim=1)
        scores = torch.matmul(self.rotary(query), self.rotary(key).transpose(-2, -1)) * self.scale
        hidden = torch.ones(positions, positions, dtype=torch.bool).triu(self.first_hidden)
        weights = F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, positions, width)
        return self.out(mixed)


class MLP(nn.Module):
    """Two linear layers around a GELU, four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """Pre-norm residual block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width)
        self.attention = Attention(width, heads)
        self.mlp_norm = RMSNorm(width)
        self.mlp = MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class ByteTransformer(nn.Module):
    """Predicts the next byte; the output projection shares its weight with the embedding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.embedding.weight, std=shape.width**-0.5)  # it is the output projection too
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads) for _ in range(shape.blocks))
        self.norm = RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, text: Tensor) -> Tensor:
        """text: (batch, positions) of bytes as int64; returns logits (batch, positions, vocabulary)."""
        x = self.embedding(text)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
