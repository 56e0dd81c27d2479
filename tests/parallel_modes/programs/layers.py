"""A small transformer; the programs beside it spread it over processes."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, WORDS, CLASSES = 16, 4, 11, 7


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for each in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(2, 3))
        scores = torch.mul(scores, (WIDTH // HEADS) ** -0.5)
        weights = torch.softmax(scores, dim=-1)
        mixed = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.o(mixed)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.mlp = Attention(), Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        y = self.mlp(self.norm2(x))
        return x + y


class Net(nn.Module):
    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch(seed: int, size: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and classes."""
    source = torch.Generator().manual_seed(seed)
    return torch.randint(WORDS, (size, 6), generator=source), torch.randint(CLASSES, (size, 6), generator=source)


def loss_of(logits: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), goal.flatten())
