"""Plain tensors at random: of any dtype, shape and strides."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch

DTYPES = sorted(
    {it for it in vars(torch).values() if isinstance(it, torch.dtype) and not str(it).startswith("torch.q")}, key=str
)
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "whole": lambda it: it,
    "turned": lambda it: it.permute(tuple(reversed(range(it.dim())))),
    "every other": lambda it: it[..., ::2] if it.dim() else it,
    "without the first": lambda it: it[1:] if it.dim() else it,
    "repeated": lambda it: it.unsqueeze(0).expand(3, *it.shape),
    "unknown to autograd": lambda it: it.detach(),
}


@dataclasses.dataclass(frozen=True)
class RandomTensor:
    """A tensor of random bits: of any dtype and shape, seen through one view after the other."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    views: tuple[str, ...]
    grad: bool

    def build(self) -> torch.Tensor:
        count = math.prod(self.shape)
        bits = torch.randint(256, (count * self.dtype.itemsize,), generator=torch.Generator().manual_seed(count))
        numbers = bits.to(torch.uint8) & 1 if self.dtype is torch.bool else bits.to(torch.uint8)
        tensor = numbers.view(self.dtype).reshape(self.shape)
        if self.grad and (self.dtype.is_floating_point or self.dtype.is_complex):
            tensor.requires_grad_()
        for view in self.views:
            tensor = VIEWS[view](tensor)
        return tensor
