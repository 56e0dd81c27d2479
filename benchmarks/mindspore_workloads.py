"""Training steps of MindSpore's dynamic graph, as in ``workloads``: a model and a function that runs one step.

A name that begins with ``ms`` belongs here: ``msmlp:layers=40,width=16``. With ``blocking=1`` operators are launched
one after the other, with the tool and without: a look at a value then needs no hand-over between threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops

Workload = tuple[nn.Cell, Callable[[], None]]


def build(spec: str) -> Workload:
    """The model and step of a workload; ValueError names the known ones."""
    name, _, rest = spec.partition(":")
    arguments = {key: int(value) for key, _, value in (pair.partition("=") for pair in filter(None, rest.split(",")))}
    if name not in BUILDERS:
        raise ValueError(f"unknown workload {name!r}; known for MindSpore: {', '.join(BUILDERS)}")
    return BUILDERS[name](**arguments)


def msmlp(layers: int = 40, width: int = 16, batch: int = 4, blocking: int = 0) -> Workload:
    """Dense layers and functions on a few elements each: shows costs per call."""
    if blocking:
        mindspore.runtime.launch_blocking()  # before the first operator, or it has no effect
    mindspore.set_seed(0)
    model = _Stack(layers, width)
    inputs = Tensor(np.linspace(-1, 1, batch * width, dtype=np.float32).reshape(batch, width))
    gradients = mindspore.value_and_grad(model, None, model.trainable_params())

    def step() -> None:
        loss, _ = gradients(inputs)
        loss.asnumpy()

    return model, step


class _Stack(nn.Cell):
    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.CellList([nn.Dense(width, width) for _ in range(layers)])

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = ops.sigmoid(layer(x)) + x
        return x.mean()


BUILDERS: dict[str, Callable[..., Workload]] = {"msmlp": msmlp}
