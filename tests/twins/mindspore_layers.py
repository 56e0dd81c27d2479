"""Layers in MindSpore, recorded: ``python -m tests.twins.mindspore_layers FOLDER NAME...``.

Reads ``FOLDER/weights/NAME.npz``, and records below ``FOLDER/mindspore/LEVEL/NAME/VARIANT``.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops

from tests.twins.kinds import FEATURES, LAYER, RECORDED, Kind, faulty, find_kind
from tests.twins.mindspore_recording import record_steps, run


class Scaled(nn.Cell):
    """A layer whose input is scaled."""

    def __init__(self, inner: nn.Cell, factor: float) -> None:
        super().__init__()
        self.inner = inner
        self.factor = factor

    def construct(self, x: Any, *rest: Any) -> Any:
        y = self.inner(x, *rest)
        return (y if isinstance(y, Tensor) else y[0]) * self.factor


class Applied(nn.Cell):
    """A function as a layer; the result is scaled."""

    def __init__(self, name: str, *arguments: Any, factor: float = 1.0) -> None:
        super().__init__()
        self.name, self.arguments, self.factor = name, arguments, factor

    def construct(self, x: Any) -> Any:
        return getattr(ops, self.name)(x, *self.arguments) * self.factor


class RMSNorm(nn.Cell):
    """A norm of the model's own."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = Parameter(np.ones(width, np.float32))
        self.eps = eps

    def construct(self, x: Any) -> Any:
        return x * ops.rsqrt(ops.mean(x * x, -1, keep_dims=True) + self.eps) * self.weight


class Attention(nn.Cell):
    """Attention as models write it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Dense(width, width) for _ in range(4))

    def construct(self, x: Any) -> Any:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (layer(x).reshape(shape).swapaxes(1, 2) for layer in (self.query, self.key, self.value))
        weights = ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) / math.sqrt(shape[-1]), -1)
        return self.out(ops.matmul(weights, v).swapaxes(1, 2).reshape(x.shape))


class Net(nn.Cell):
    """A linear layer, the layer in question, and where it is no loss a linear layer that uses the result."""

    def __init__(self, kind: Kind, variant: str, features: int) -> None:
        super().__init__()
        first = kind.arrays()[0]
        self.stem = nn.Dense(first.shape[-1], first.shape[-1]) if first.dtype == np.float32 else None
        namespace = {
            "nn": nn,
            "mint": mint,
            "Scaled": Scaled,
            "RMSNorm": RMSNorm,
            "Attention": Attention,
            "Applied": Applied,
        }
        setattr(self, LAYER, eval(kind.expression("mindspore", variant), namespace))
        self.head = None if kind.is_loss else nn.Dense(features, FEATURES)

    def construct(self, x: Any, *rest: Any) -> Any:
        if self.stem is not None:
            x = self.stem(x)
        result = self.layer(x, *rest)
        while not isinstance(result, Tensor):
            result = result[0]
        return result if self.head is None else self.head(result.reshape(len(result), -1))


_NAMES = {
    "gamma": "weight",
    "beta": "bias",
    "embedding_table": "weight",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "w": "weight",
}
_CELLS = {".bn2d.": ".", ".dense1.": ".linear1.", ".dense2.": ".linear2."}
_WITHOUT_TWIN = ("moving_mean", "moving_variance", "gamma", "beta")


def load(model: nn.Cell, weights: dict[str, Any]) -> None:
    """Give the weights of PyTorch to a model of the same paths."""
    waiting = {name.removeprefix("buffer "): value for name, value in weights.items()}
    for name, parameter in model.parameters_and_names():
        twin = name
        for cell, module in _CELLS.items():
            twin = twin.replace(cell, module)
        path, _, last = twin.rpartition(".")
        found = twin if twin in waiting else f"{path}.{_NAMES.get(last, last)}"
        if found not in waiting and last in _WITHOUT_TWIN:
            continue  # PyTorch's layer has none: constants
        parameter.set_data(Tensor(waiting.pop(found).reshape(parameter.shape)))
    assert not waiting, (sorted(waiting), [name for name, _ in model.parameters_and_names()])


def _tensors(array: Any) -> Any:
    return tuple(map(_tensors, array)) if isinstance(array, tuple) else Tensor(array)


def _record(name: str, folder: Path) -> None:
    kind = find_kind(name)
    weights = dict(np.load(folder / "weights" / f"{name}.npz"))
    inputs = list(map(_tensors, kind.arrays()))
    for level, variant in RECORDED:
        wrong = faulty(weights, variant)
        if wrong is not None:
            model = Net(kind, variant, 0 if kind.is_loss else weights["head.weight"].shape[1])
            load(model, wrong)
            model.set_train(kind.training)

            def loss(*inputs: Any, model: Any = model) -> Any:
                result = model(*inputs)
                return result if kind.is_loss else ops.mean(result * result)

            step = partial(ms.value_and_grad(loss, None, model.trainable_params()), *inputs)
            record_steps(folder / "mindspore" / level / name / variant, level, model, step)


if __name__ == "__main__":
    run(_record)
