"""Small models of which each block computes the same in two ways, in other pieces or another layout, and wrongly.

A block has the ways ``PLAIN`` and ``OTHER``, each also with a fault: the line that is marked ``# wrong``.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

ROWS, LENGTH, WIDTH, HEADS = 4, 6, 8, 2


class Block(nn.Module):
    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__()
        self.other, self.wrong = other, wrong


class Chunked(Block):
    """A feed-forward block for all positions, or for two at a time."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.first, self.act, self.second = nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH)

    def feed(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.act(self.first(x))
        if self.wrong:
            hidden = hidden * 1.25  # wrong
        return self.second(hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.feed(part) for part in x.split(2, 1)], 1) if self.other else self.feed(x)


class Reversed(Chunked):
    """The same, of which a fault puts the pieces together in another order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wrong, self.wrong = self.wrong, False
        parts = [self.feed(part) for part in x.split(2, 1)] if self.other else list(self.feed(x).split(2, 1))
        self.wrong = wrong
        return torch.cat(parts[::-1] if wrong else parts, 1)  # wrong


class Experts(Block):
    """Two experts, one after the other, or as one product; the activation is a module."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.up = nn.Parameter(torch.randn(2, WIDTH, 12))
        self.down = nn.Parameter(torch.randn(2, 12, WIDTH))
        self.act = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(2, -1, WIDTH)
        if self.other:
            down = self.down.flip(0) if self.wrong else self.down  # wrong
            return torch.bmm(self.act(torch.bmm(tokens, self.up)), down).reshape(x.shape)
        order = (1, 0) if self.wrong else (0, 1)
        hidden = [self.act(torch.matmul(tokens[expert], self.up[expert])) for expert in (0, 1)]
        found = [torch.matmul(hidden[expert], self.down[order[expert]]) for expert in (0, 1)]  # wrong
        return torch.stack(found).reshape(x.shape)


class Pointwise(Block):
    """A convolution of one pixel, channels first, or a linear layer, channels last."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.mix, self.act, self.out = nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.unflatten(1, (2, 3))
        if not self.other:
            mixed = self.act(self.mix(x))
            if self.wrong:
                mixed = mixed * 1.25  # wrong
            return self.out(mixed).flatten(1, 2)
        x = x.permute(0, 3, 1, 2)
        mixed = self.act(nn.functional.conv2d(x, self.mix.weight[:, :, None, None], self.mix.bias))
        if self.wrong:
            mixed = mixed * 1.25  # wrong
        mixed = nn.functional.conv2d(mixed, self.out.weight[:, :, None, None], self.out.bias)
        return mixed.permute(0, 2, 3, 1).flatten(1, 2)


class Halves(Block):
    """A module for the whole batch, or for each half of it."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.inner = Chunked(False, wrong)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.inner(half) for half in x.chunk(2)]) if self.other else self.inner(x)


class Flattened(Block):
    """Norm and linear layer of rows, or of rows in batches."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.norm, self.line = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, WIDTH) if self.other else x
        rows = self.norm(rows)
        if self.wrong:
            rows = rows + 0.5  # wrong
        return torch.relu(self.line(rows)).reshape(x.shape)


class Heads(Block):
    """The norm of each head before heads and positions change places, or after it."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.line, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH // HEADS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.line(x)
        parts = rows.view(ROWS, LENGTH, HEADS, -1)
        if self.other:
            parts = rows.view(ROWS, HEADS, LENGTH, -1) if self.wrong else parts.transpose(1, 2)
            parts = self.norm(parts)  # wrong
        else:
            parts = self.norm(parts)
            parts = parts.reshape(ROWS, HEADS, LENGTH, -1) if self.wrong else parts.transpose(1, 2)
        weights = torch.softmax(parts @ parts.transpose(2, 3), -1)  # wrong
        return (weights @ parts).transpose(1, 2).reshape(x.shape)


class Image(Block):
    """Channels first, or channels last, with an activation in between."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.act, self.line = nn.Tanh(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.other:
            x = self.act(x.transpose(1, 2))
            x = x.reshape(ROWS, LENGTH, WIDTH) if self.wrong else x.transpose(1, 2)
        else:
            x = self.act(x)
            x = x.reshape(ROWS, WIDTH, LENGTH).transpose(1, 2) if self.wrong else x
        return self.line(x)  # wrong


class Pooled(Block):
    """A pool over positions with channels first, or with channels last: the axes have other numbers."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.line = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.other:
            x = torch.relu(x.transpose(1, 2))
            shares = torch.softmax(x, 1 if self.wrong else 2)  # wrong
            pooled = (x * shares).sum(dim=2)
        else:
            x = torch.relu(x)
            shares = torch.softmax(x, 2 if self.wrong else 1)  # wrong
            pooled = (x * shares).sum(dim=1)
        return self.line(pooled)


class Turned(Block):
    """Attention over positions. A fault gives it rows and positions exchanged; the other way writes it in one line."""

    def __init__(self, other: bool, wrong: bool) -> None:
        super().__init__(other, wrong)
        self.line = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.transpose(0, 1) if self.wrong else x
        rows = self.line(x)  # wrong
        mixed = torch.bmm(torch.softmax(torch.bmm(rows, rows.transpose(1, 2)), -1), rows)
        return mixed.transpose(0, 1) if self.wrong else mixed


BLOCKS = {
    one.__name__: one
    for one in (Chunked, Reversed, Experts, Pointwise, Halves, Flattened, Heads, Image, Pooled, Turned)
}


class Model(nn.Module):
    def __init__(self, block: str, other: bool, wrong: bool) -> None:
        super().__init__()
        self.begin = nn.Linear(WIDTH, WIDTH)
        self.block = BLOCKS[block](other, wrong)
        self.end = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(self.block(self.begin(x)))


def record(folder: Path, block: str, other: bool, wrong: bool) -> None:
    """Record one step of a model with this block."""
    forget()
    torch.manual_seed(0)
    model = Model(block, other, wrong)
    x = torch.randn(ROWS, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(x).square().mean().backward()
    forget()
