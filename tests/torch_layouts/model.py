"""A small transformer that torch's own plans can cut, and its samples."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

WORDS, WIDTH, HEAD, LAYERS, LENGTH = 32, 32, 8, 2, 8


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.act: nn.Module = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.act(self.up(x)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.mlp = Attention(), Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding: nn.Module | None = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleDict({str(index): Layer() for index in range(LAYERS)})
        self.norm: nn.Module | None = nn.LayerNorm(WIDTH)
        self.head: nn.Module | None = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers.values():
            x = layer(x)
        return x if self.norm is None or self.head is None else self.head(self.norm(x))

    def stage(self, rank: int, size: int) -> Model:
        """Return the model with what one of ``size`` stages has of it, as torch's manual splitting does."""
        own = range(LAYERS * rank // size, LAYERS * (rank + 1) // size)
        self.layers = nn.ModuleDict({str(index): self.layers[str(index)] for index in own})
        if rank > 0:
            self.embedding = None
        if rank < size - 1:
            self.norm = self.head = None
        return self


def samples(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens of a step and their labels."""
    torch.manual_seed(100 + step)
    return torch.randint(WORDS, (4, LENGTH)), torch.randint(WORDS, (4, LENGTH))


def loss_of(model: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    logits = model(tokens)
    logits = getattr(logits, "logits", logits)
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
