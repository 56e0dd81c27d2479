"""Changes that are no fault: the comparison must call these runs the same."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tests.zoo.model import Block, Training


def _nothing(training: Training) -> None:
    """A rerun."""


def _threads(training: Training) -> None:
    torch.set_num_threads(4)


def _kernels(training: Training) -> None:
    """Matrix products from another library."""
    torch.backends.mkldnn.enabled = False


def _recompute(reentrant: bool) -> Callable[[Training], None]:
    def apply(training: Training) -> None:
        training.model.recompute = reentrant

    return apply


def _one_block(training: Training) -> None:
    """Only the attention of one block is recomputed, from inside its module."""
    block = training.model.blocks[1]

    def attend(self: Block, x: Tensor) -> Tensor:
        return x + self.drop(checkpoint(lambda y: self.attention(self.attention_norm(y)), x, use_reentrant=False))

    block.attend = MethodType(attend, block)  # type: ignore[method-assign]


def _refactored(training: Training) -> None:
    """The same operations in the same order from other lines, functions and files."""

    def attend_to(layer: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = layer.mask(layer.scores(query, key))
        weights = F.softmax(scores, dim=layer.softmax_dim)
        return torch.matmul(weights, value)

    def forward(self: Any, x: Tensor) -> Tensor:
        parts = [self.split(layer(x)) for layer in (self.query, self.key)]
        query, key = (self.rotary(part) for part in parts)
        return self.out(self.merge(attend_to(self, query, key, self.split(self.value(x)))))

    for block in training.model.blocks:
        block.attention.forward = MethodType(forward, block.attention)


def _perturbed(training: Training) -> None:
    """Weights that differ in their last digit: what single elements carry shows only where they are summed."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in training.model.parameters():
            parameter.mul_(1 + 1e-7 * torch.randn(parameter.shape, generator=generator))


HARMLESS: dict[str, Callable[[Training], None]] = {
    "rerun": _nothing,
    "other-thread-count": _threads,
    "other-kernels": _kernels,
    "recompute-reentrant": _recompute(True),
    "recompute-non-reentrant": _recompute(False),
    "recompute-one-block": _one_block,
    "refactored": _refactored,
    "weights-perturbed": _perturbed,
}
