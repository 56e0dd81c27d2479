"""Modules and an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.fake_framework import functional
from tests.fake_framework.tensor import Tensor

step_hooks: list[tuple[Callable[[], None], Callable[[], None]]] = []
"""What is called before and after every optimizer step."""


class Module:
    """A tree of modules; tensors among its attributes are its parameters."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no forward")

    def named_modules(self, path: str = "") -> Iterator[tuple[str, Module]]:
        yield path, self
        for name, child in vars(self).items():
            if isinstance(child, Module):
                yield from child.named_modules(f"{path}.{name}" if path else name)

    def own_parameters(self) -> list[tuple[str, Tensor]]:
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Tensor)]

    def parameters(self) -> list[Tensor]:
        return [value for _, module in self.named_modules() for _, value in module.own_parameters()]


class Linear(Module):
    """``x @ weight.T + bias`` with fixed, distinct weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        values = np.linspace(-1, 1, inputs * outputs, dtype=np.float32)
        self.weight = Tensor(values.reshape(outputs, inputs), requires_grad=True)
        self.bias = Tensor(np.zeros(outputs, np.float32), requires_grad=True)

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input, self.weight, self.bias)


class ReLU(Module):
    """Rectifies, in place if asked."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.relu(input, inplace=self.inplace)


class SGD:
    """Plain gradient descent."""

    def __init__(self, parameters: list[Tensor], lr: float) -> None:
        self.parameters = parameters
        self.lr = lr

    def step(self) -> None:
        for before, _ in list(step_hooks):
            before()
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.data[...] -= self.lr * parameter.grad
        for _, after in list(step_hooks):
            after()
