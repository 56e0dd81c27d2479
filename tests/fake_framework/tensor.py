"""``Tensor``: a numpy array that remembers how it was made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.fake_framework.autograd import Array, Backward, Edge, Leaf, Node, run_backward


class Tensor:
    """Holds ``data``; ``maker`` is the node and output number that made it, a ``Leaf`` for those made by hand."""

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        self.data = np.asarray(data)
        self.grad: Array | None = None
        self.maker: Edge | None = (Leaf(self), 0) if requires_grad else None

    @property
    def requires_grad(self) -> bool:
        return self.maker is not None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def __reduce__(self) -> Any:
        return Tensor, (self.data, isinstance(self.maker and self.maker[0], Leaf))

    def __deepcopy__(self, memo: Any) -> Tensor:
        return Tensor(self.data.copy(), self.requires_grad)

    def hook(self, function: Callable[[Array], None]) -> Callable[[], None]:
        """Let ``function`` see every gradient of this leaf; the result takes it away again."""
        assert self.maker is not None and isinstance(self.maker[0], Leaf)
        hooks = self.maker[0].hooks
        hooks.append(function)
        return lambda: hooks.remove(function)

    def backward(self) -> None:
        assert self.maker is not None
        run_backward(self.maker, np.ones_like(self.data))

    def add(self, other: Tensor) -> Tensor:
        return made([self.data + other.data], (self, other), lambda g: (g[0], g[0]))[0]

    def mul(self, other: Tensor) -> Tensor:
        a, b = self.data.copy(), other.data.copy()
        return made([a * b], (self, other), lambda g: (times(g[0], b), times(g[0], a)))[0]

    def mul_(self, other: Tensor) -> Tensor:
        return self._become(self.mul(other))

    def sum(self) -> Tensor:
        shape = self.data.shape
        return made([self.data.sum()], (self,), lambda g: (None if g[0] is None else np.broadcast_to(g[0], shape),))[0]

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        parts = np.array_split(self.data, chunks, dim)

        def backward(gradients: Sequence[Array | None]) -> tuple[Array]:
            pairs = zip(parts, gradients, strict=True)
            return (np.concatenate([np.zeros_like(part) if g is None else g for part, g in pairs], dim),)

        return tuple(made(parts, (self,), backward))

    def matmul(self, other: Tensor) -> Tensor:
        a, b = self.data.copy(), other.data.copy()
        return made([a @ b], (self, other), lambda g: (None, None) if g[0] is None else (g[0] @ b.T, a.T @ g[0]))[0]

    def _become(self, other: Tensor) -> Tensor:
        """Take over the values and the history of ``other``: what an in-place operator does."""
        self.data[...] = other.data
        self.maker = other.maker
        return self


def made(arrays: Sequence[Any], inputs: Sequence[Tensor], backward: Backward) -> list[Tensor]:
    """The outputs of an operation, joined to the tape when an input needs a gradient."""
    results = [Tensor(array) for array in arrays]
    if any(tensor.requires_grad for tensor in inputs):
        node = Node([tensor.maker for tensor in inputs], len(results), backward)
        for number, result in enumerate(results):
            result.maker = (node, number)
    return results


def times(gradient: Array | None, factor: Array) -> Array | None:
    return None if gradient is None else gradient * factor
