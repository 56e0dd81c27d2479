"""Small deterministic trainings that msprobe and the reference can both record, each with the faults that fit it.

A program is a function that returns its model, its optimizer and a function that computes the loss of a batch.
``fault`` names what is planted in it; an empty text plants nothing. Nothing here imports msprobe: ``record`` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH, WORDS = 8, 20


class Program(NamedTuple):
    """One training: what ``record`` runs."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[nn.Module, int], Tensor]
    micro_batches: int = 1
    clip: float | None = None


class Mlp(nn.Module):
    """Two layers, with operations on tensors between them."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.first, self.act, self.drop = nn.Linear(6, WIDTH), nn.ReLU(), nn.Dropout(0.0)
        self.second = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.act(self.first(x))
        if self.fault == "operation":
            hidden = hidden * 1.01
        if self.fault == "detached":
            hidden = hidden.detach()
        if self.fault == "argument":
            hidden = F.leaky_relu(hidden - 0.5, 0.3)
        else:
            hidden = F.leaky_relu(hidden - 0.5, 0.1)
        return self.second(self.drop(hidden))


def mlp(fault: str) -> Program:
    """Return a training of ``Mlp``: SGD with momentum, mean squared error."""
    model = Mlp(fault)
    x, y = torch.randn(5, 6), torch.randn(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3 if fault == "lr" else 0.1, momentum=0.9)
    return Program(model, optimizer, lambda m, step: F.mse_loss(m(x + step), y))


class Cnn(nn.Module):
    """Convolutions, batch norm, an in-place activation and a residual sum."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.conv = nn.Conv2d(3, WIDTH, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(WIDTH, eps=1e-2 if fault == "eps" else 1e-5)
        self.act = nn.ReLU(inplace=True)
        self.block = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 1), nn.BatchNorm2d(WIDTH), nn.ReLU(inplace=True))
        self.pool, self.head = nn.AdaptiveAvgPool2d(2), nn.Linear(4 * WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.conv(x)))
        x = F.max_pool2d(x, 2)
        other = self.block(x)
        x = x - other if self.fault == "operation" else x + other
        if self.fault == "detached":
            x = x.detach()
        return self.head(self.pool(x).flatten(1))


def cnn(fault: str) -> Program:
    """Return a training of ``Cnn``: Adam, cross entropy."""
    model = Cnn(fault)
    images, labels = torch.randn(4, 3, 8, 8), torch.tensor([0, 3, 1, 4])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2 if fault == "lr" else 1e-2)
    return Program(model, optimizer, lambda m, step: F.cross_entropy(m(images * (1 + step)), labels))


class Attention(nn.Module):
    """Causal attention with two heads, written with functions."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("hidden", torch.ones(16, 16).triu(2 if fault == "mask" else 1).bool())

    def forward(self, x: Tensor, scale: float = 0.5) -> Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(x).split(WIDTH, dim=-1)
        q, k, v = (part.reshape(batch, length, 2, -1).transpose(1, 2) for part in parts)
        scores = torch.matmul(q, k.transpose(-1, -2)) * (0.6 if self.fault == "argument" else scale)
        scores = scores.masked_fill(self.hidden[:length, :length], float("-inf"))
        weights = F.softmax(scores, dim=-1, dtype=torch.float32)
        mixed = torch.matmul(weights, v).transpose(1, 2).contiguous().view(batch, length, -1)
        return self.out(mixed.detach() if self.fault == "detached" else mixed)


class Layer(nn.Module):
    """One layer of a transformer; it returns its result and the attention's."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.before = nn.LayerNorm(WIDTH, eps=1e-2 if fault == "eps" else 1e-5)
        self.attention, self.after = Attention(fault), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.fault = fault

    def forward(self, x: Tensor, *, scale: float = 0.5) -> tuple[Tensor, Tensor]:
        mixed = self.attention(self.before(x), scale=scale)
        x = x + mixed
        hidden = self.up(self.after(x))
        hidden = F.relu(hidden) if self.fault == "operation" else F.gelu(hidden, approximate="tanh")
        return x + self.down(hidden), mixed


class Transformer(nn.Module):
    """Two layers between an embedding and a head that share their weight."""

    def __init__(self, fault: str, repeat: str = "") -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(16, WIDTH)
        self.layers = nn.ModuleList([Layer(""), Layer(fault)])
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight
        self.repeat = repeat

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            if self.repeat:
                x, _ = checkpoint(layer, x, use_reentrant=self.repeat == "reentrant")
            else:
                x, _ = layer(x, scale=0.5)
        return self.head(x)


def _language_model(fault: str, repeat: str = "") -> Program:
    model = Transformer(fault, repeat)
    ids = torch.arange(12).reshape(2, 6) % 7
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3 if fault == "lr" else 1e-3, foreach=False)

    def loss(model: nn.Module, step: int) -> Tensor:
        return F.cross_entropy(model(ids + step).flatten(0, 1), ids.flatten(), ignore_index=6)

    return Program(model, optimizer, loss, clip=1.0)


def transformer(fault: str) -> Program:
    """Return a training of a language model: AdamW, clipped gradients."""
    return _language_model(fault)


def reentrant(fault: str) -> Program:
    """Return ``transformer`` with layers that reentrant checkpointing repeats."""
    return _language_model(fault, "reentrant")


def checkpointed(fault: str) -> Program:
    """Return ``transformer`` with layers that non-reentrant checkpointing repeats."""
    return _language_model(fault, "non-reentrant")


def accumulated(fault: str) -> Program:
    """Return ``transformer`` with three micro batches a step."""
    return _language_model(fault)._replace(micro_batches=3)


class Recurrent(nn.Module):
    """An LSTM below a linear layer."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, WIDTH, batch_first=True), nn.Linear(WIDTH, 3)
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        values, (last, _) = self.lstm(x.flip(1) if self.fault == "operation" else x)
        if self.fault == "detached":
            values = values.detach()
        return self.head(values.mean(1) + last[0])


def lstm(fault: str) -> Program:
    """Return a training of ``Recurrent``: SGD."""
    model = Recurrent(fault)
    x, y = torch.randn(4, 5, 6), torch.randn(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3 if fault == "lr" else 0.1)
    return Program(model, optimizer, lambda m, step: F.mse_loss(m(x + step), y))


class Odd(nn.Module):
    """Calls of every kind: in place, several results, masks, indices, other dtypes, arguments that are no tensors."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.mix, self.bilinear = nn.Linear(6, 6), nn.Bilinear(6, 6, 4)
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        x = self.mix(x) * self.scale
        x = x.clone().mul_(0.9 if self.fault == "argument" else 0.8).add_(0.1)
        x += 0.25
        values, places = torch.topk(x, 3, dim=-1)
        largest, _ = torch.max(x, dim=1, keepdim=True)
        left, right = torch.chunk(x, 2, dim=-1)
        x = torch.cat([left, right, values - largest], dim=-1)
        x = torch.where(x > 0, x, torch.zeros_like(x)) + torch.gather(x, 1, places).sum(-1, keepdim=True)
        first = torch.einsum("bi,bj->bij", x[:, :6], x[:, 3:]).sum(1)
        double = first.to(torch.float64).cumsum(0).to(torch.float32)
        half = torch.addmm(first, first.bfloat16().float(), torch.eye(6), beta=1, alpha=0.5)
        if self.fault == "detached":
            half = half.detach()
        mask = torch.zeros(first.shape, dtype=torch.bool).index_fill_(1, torch.tensor([2]), True)
        result = self.bilinear(double.masked_fill(mask, 0.5), half)
        norm = torch.linalg.norm(result.float(), ord=2) + torch.view_as_complex(result[:, :2].contiguous()).abs().sum()
        spread, center = torch.std_mean(result, dim=0)
        result = F.normalize(result, dim=-1) * spread + center.clamp(min=None, max=3.0) - norm / 10
        return F.pad(result, (0, 1)) if self.fault != "operation" else F.pad(result, (1, 0))


def odd(fault: str) -> Program:
    """Return a training of ``Odd``: RMSprop, two losses."""
    model = Odd(fault)
    x, y = torch.randn(4, 6), torch.rand(4, 5)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3 if fault == "lr" else 1e-3)

    def loss(model: nn.Module, step: int) -> Tensor:
        result = model(x + step)
        return F.l1_loss(result, y) + F.kl_div(F.log_softmax(result, -1), y.softmax(-1), reduction="batchmean")

    return Program(model, optimizer, loss)


class Half(nn.Module):
    """Autocast to bfloat16, and a module that is given keywords and returns an object."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 2, bias=False, batch_first=True)
        self.fault = fault

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> dict[str, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.second(torch.tanh(self.first(x)))
        hidden = hidden.float().detach() if self.fault == "detached" else hidden.float()
        mixed, _ = self.attend(hidden, hidden, hidden, key_padding_mask=mask, need_weights=False)
        return {"mixed": torch.sigmoid(mixed) if self.fault == "operation" else torch.tanh(mixed), "hidden": hidden}


class Outer(nn.Module):
    """Calls ``Half`` with keywords and a null."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.inner, self.head = Half(fault), nn.Linear(WIDTH, 2)
        self.late = fault == "mask"

    def forward(self, x: Tensor, nothing: None = None) -> Tensor:
        mask = torch.zeros(x.shape[:2], dtype=torch.bool)
        mask[:, 2 if self.late else 3 :] = True
        found = self.inner(x=x, mask=mask)
        return self.head(found["mixed"] + found["hidden"])


def half(fault: str) -> Program:
    """Return a training of ``Outer``: AdamW with tensors in lists (foreach)."""
    model = Outer(fault)
    x, y = torch.randn(3, 4, 6), torch.randn(3, 4, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3 if fault == "lr" else 1e-3, foreach=True)
    return Program(model, optimizer, lambda m, step: F.smooth_l1_loss(m(x + step, None), y))


PROGRAMS: dict[str, Callable[[str], Program]] = {
    function.__name__: function
    for function in (mlp, cnn, transformer, reentrant, checkpointed, accumulated, lstm, odd, half)
}
FAULTS = {
    "mlp": ("weight", "operation", "argument", "detached", "lr"),
    "cnn": ("weight", "eps", "operation", "detached", "lr"),
    "transformer": ("weight", "eps", "mask", "operation", "argument", "detached", "lr"),
    "reentrant": ("weight", "eps", "mask", "operation", "lr"),
    "checkpointed": ("weight", "eps", "mask", "operation", "detached", "lr"),
    "accumulated": ("weight", "mask", "lr"),
    "lstm": ("weight", "operation", "detached", "lr"),
    "odd": ("weight", "operation", "argument", "detached", "lr"),
    "half": ("weight", "mask", "operation", "detached", "lr"),
}
"""Name of each program -> the faults that fit it; ``weight`` is planted by ``record``."""
