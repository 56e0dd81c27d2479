"""A small decoder-only transformer and its training: the healthy run into which the zoo plants one fault at a time.

Every step of the computation is a method or an attribute of its module, so that a fault replaces exactly that on one
instance, as a wrong line of code or a wrong setting would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

VOCABULARY, WIDTH, HEADS, BLOCKS, BATCH, POSITIONS, STEPS = 61, 32, 4, 2, 3, 12, 2


class Gate(torch.autograd.Function):
    """x * sigmoid(x) with a gradient written by hand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


class Swish(nn.Module):
    """The activation of the second half of each MLP, through the hand-written function."""

    def __init__(self) -> None:
        super().__init__()
        self.function: type[torch.autograd.Function] = Gate

    def forward(self, x: Tensor) -> Tensor:
        return self.function.apply(x)


class RMSNorm(nn.Module):
    """Scales each position to root mean square 1, then by a learned weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = 1e-5

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight


class Rotary(nn.Module):
    """Rotary position embedding from tables that are made once."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.register_buffer("cos", torch.empty(0), persistent=False)
        self.register_buffer("sin", torch.empty(0), persistent=False)
        self.fill(10_000.0)

    def fill(self, base: float) -> None:
        exponent = torch.arange(0, self.channels, 2, dtype=torch.float32) / self.channels
        angle = torch.outer(torch.arange(POSITIONS, dtype=torch.float32), base**-exponent)
        self.cos, self.sin = torch.cos(angle), torch.sin(angle)

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * self.cos - second * self.sin, first * self.sin + second * self.cos), dim=-1)


class Attention(nn.Module):
    """Causal self-attention, written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.first_hidden = 1
        self.softmax_dim = -1
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.rotary = Rotary(width // heads)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def turn(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return self.rotary(query), self.rotary(key)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.matmul(query, key.transpose(-2, -1)) * self.scale

    def mask(self, scores: Tensor) -> Tensor:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(self.first_hidden)
        return scores.masked_fill(hidden, float("-inf"))

    def merge(self, mixed: Tensor) -> Tensor:
        return mixed.transpose(1, 2).reshape(mixed.shape[0], mixed.shape[2], -1)

    def forward(self, x: Tensor) -> Tensor:
        query, key = self.turn(self.split(self.query(x)), self.split(self.key(x)))
        value = self.split(self.value(x))
        weights = F.softmax(self.mask(self.scores(query, key)), dim=self.softmax_dim)
        return self.out(self.merge(torch.matmul(weights, value)))


class MLP(nn.Module):
    """Gated two-layer network; the gate runs in half precision between two scalings."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.gate = nn.Linear(width, 2 * width)
        self.swish = Swish()
        self.down = nn.Linear(2 * width, width)
        self.approximate = "none"
        self.half_scale = 8.0

    def squeeze(self, x: Tensor) -> Tensor:
        return torch.tanh((x * self.half_scale).half() / self.half_scale).float()

    def activate(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate=self.approximate)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activate(self.up(x)) * self.squeeze(self.swish(self.gate(x))))


class Block(nn.Module):
    """Pre-norm residual block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width)
        self.attention = Attention(width, heads)
        self.drop = nn.Dropout(0.0)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def attend(self, x: Tensor) -> Tensor:
        return x + self.drop(self.attention(self.attention_norm(x)))

    def think(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.mlp_norm(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.think(self.attend(x))


class Embed(nn.Module):
    """Token plus learned position."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(POSITIONS + 1, width)
        self.first = 0

    def forward(self, text: Tensor) -> Tensor:
        return self.tokens(text) + self.positions(torch.arange(text.shape[1]) + self.first)


class Decoder(nn.Module):
    """Predicts the next token. ``recompute`` checkpoints every block: None is not at all, True reentrant."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = Embed(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(BLOCKS))
        self.norm = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.recompute: bool | None = None

    def pile(self) -> list[nn.Module]:
        """The blocks in the order in which they run."""
        return list(self.blocks)

    def forward(self, text: Tensor) -> Tensor:
        """text: (batch, positions) of int64; returns logits (batch, positions, vocabulary)."""
        x = self.embed(text)
        for block in self.pile():
            x = block(x) if self.recompute is None else checkpoint(block, x, use_reentrant=self.recompute)
        return self.head(self.norm(x))


def adamw(parameters: Any, **changes: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, **{"lr": 1e-2, "weight_decay": 0.1, "betas": (0.9, 0.95), **changes})


def sgd(parameters: Any, **changes: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, **{"lr": 0.1, "momentum": 0.9, **changes})


@dataclass(slots=True)
class Training:
    """Everything a fault can touch. ``settings`` go to the optimizer; ``meddle`` runs before each step."""

    model: Decoder
    optimizer: Callable[..., torch.optim.Optimizer] = adamw
    settings: dict[str, Any] = field(default_factory=dict)
    label_shift: int = 1
    reduction: str = "mean"
    clip: float = 0.5
    meddle: Callable[[Decoder, int], None] = lambda model, step: None

    def text(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(100 + step)
        return torch.randint(VOCABULARY, (BATCH, POSITIONS + 2), generator=generator)

    def loss(self, logits: Tensor, text: Tensor) -> Tensor:
        labels = text[:, self.label_shift : self.label_shift + POSITIONS]
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction=self.reduction)


def healthy() -> Training:
    """The training without a fault, the same at every call."""
    torch.manual_seed(0)
    return Training(Decoder())


@dataclass(frozen=True, slots=True)
class Recording:
    """How a debugger sees a training; without one nothing is recorded. ``update`` records the optimizer too."""

    debugger: Any = None
    update: bool = True

    def call(self, method: str, *arguments: Any) -> None:
        if self.debugger is not None:
            getattr(self.debugger, method)(*arguments)


def train(training: Training, recording: Recording) -> list[float]:
    """Two steps; returns the loss of each."""
    model, losses = training.model, []
    optimizer = training.optimizer(model.parameters(), **training.settings)
    for step in range(STEPS):
        training.meddle(model, step)
        text = training.text(step)
        optimizer.zero_grad()
        recording.call("start", model)
        loss = training.loss(model(text[:, :POSITIONS]), text)
        loss.backward()
        if not recording.update:
            recording.call("stop")
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        if recording.update:
            recording.call("stop")
        recording.call("step")
        losses.append(loss.item())
    return losses
