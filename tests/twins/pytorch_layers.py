"""Layers in PyTorch, recorded: ``python -m tests.twins.pytorch_layers FOLDER NAME...``.

Writes ``FOLDER/weights/NAME.npz``, and records below ``FOLDER/pytorch/LEVEL/NAME/VARIANT``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.twins.kinds import CLEAN, FEATURES, LAYER, RECORDED, Kind, faulty, find_kind
from tests.twins.pytorch_recording import record_steps, run


class Scaled(nn.Module):
    """A layer whose input is scaled."""

    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner = inner
        self.factor = factor

    def forward(self, x: Any, *rest: Any) -> Any:
        y = self.inner(x, *rest)
        return (y if torch.is_tensor(y) else y[0]) * self.factor


class Applied(nn.Module):
    """A function as a layer; the result is scaled."""

    def __init__(self, name: str, *arguments: Any, factor: float = 1.0) -> None:
        super().__init__()
        self.name, self.arguments, self.factor = name, arguments, factor

    def forward(self, x: Any) -> Any:
        return getattr(torch, self.name)(x, *self.arguments) * self.factor


class RMSNorm(nn.Module):
    """A norm of the model's own."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    """Attention as models write it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (layer(x).reshape(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / math.sqrt(shape[-1]), -1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(x.shape))


class Net(nn.Module):
    """A linear layer, the layer in question, and where it is no loss a linear layer that uses the result."""

    def __init__(self, kind: Kind, variant: str) -> None:
        super().__init__()
        first = kind.arrays()[0]
        self.stem = nn.Linear(first.shape[-1], first.shape[-1]) if first.dtype == np.float32 else None
        own = (Scaled, Applied, RMSNorm, Attention)
        namespace = {"nn": nn, **{layer.__name__: layer for layer in own}}
        setattr(self, LAYER, eval(kind.expression("pytorch", variant), namespace))
        self.head: nn.Module | None = None

    def forward(self, x: Any, *rest: Any) -> Any:
        if self.stem is not None:
            x = self.stem(x)
        result = self.layer(x, *rest)
        while not torch.is_tensor(result):
            result = result[0]
        return result if self.head is None else self.head(result.reshape(len(result), -1))


def _tensors(array: Any) -> Any:
    if isinstance(array, tuple):
        return tuple(map(_tensors, array))
    return torch.tensor(array).long() if array.dtype == np.int32 else torch.tensor(array)


def _model(kind: Kind, variant: str) -> Net:
    torch.manual_seed(0)
    model = Net(kind, variant)
    if not kind.is_loss:
        with torch.no_grad():
            result = model(*map(_tensors, kind.arrays()))
        model.head = nn.Linear(result.numel() // len(result), FEATURES)
    for name, buffer in model.named_buffers():
        if buffer.dtype == torch.float32:
            buffer.copy_(torch.rand(buffer.shape) + (0.5 if "var" in name else 0.0))
    for parameter in model.parameters():
        if len(parameter.unique()) == 1:
            parameter.data += 0.3 * torch.randn(parameter.shape)
    return model.train(kind.training)


def _weights(model: Net) -> dict[str, Any]:
    weights = {name: value.detach().numpy().copy() for name, value in model.named_parameters()}
    buffers = {f"buffer {name}": value.numpy().copy() for name, value in model.named_buffers() if value.dim()}
    return weights | buffers


def _record(name: str, folder: Path) -> None:
    kind = find_kind(name)
    weights = _weights(_model(kind, CLEAN))
    np.savez(folder / "weights" / f"{name}.npz", **weights)
    for level, variant in RECORDED:
        wrong = faulty(weights, variant)
        if wrong is not None:
            model = _model(kind, variant)
            state = {name.removeprefix("buffer "): torch.tensor(value) for name, value in wrong.items()}
            model.load_state_dict(state, strict=False)

            def step(model: Net = model) -> None:
                result = model(*map(_tensors, kind.arrays()))
                (result if kind.is_loss else (result * result).mean()).backward()

            record_steps(folder / "pytorch" / level / name / variant, level, model, step)


if __name__ == "__main__":
    run(_record)
