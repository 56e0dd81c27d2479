"""Arguments and results on their way through an operator, which takes only lists of tensors and of integers.

The rest (nesting, constants, whether a tensor wants a gradient) stays behind, known since the graph was traced.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import detect_fake_mode

from msprobe.core.capture.containers import tensors_in
from msprobe.core.capture.parts import with_parts

DEPTH_LIMIT = 16
_CONTAINERS = (list, tuple, dict)


class _Tensor:
    __slots__ = ("index", "wants_gradient")

    def __init__(self, index: int, wants_gradient: bool) -> None:
        self.index = index
        self.wants_gradient = wants_gradient


class _Number:
    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Packed:
    """A nested value taken apart. ``unpack`` puts it together again around the values of one run."""

    __slots__ = ("_shape", "numbers", "tensors")

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[Any] = []
        self._shape: Any = None

    def forget(self) -> None:
        """The trace is over: nothing of it is kept alive."""
        self.tensors, self.numbers = [], []

    def unpack(self, tensors: list[torch.Tensor], numbers: list[int]) -> Any:
        return _unpack(self._shape, tensors, numbers)

    def _take(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            self.tensors.append(value.detach())
            return _Tensor(len(self.tensors) - 1, value.requires_grad)
        if isinstance(value, torch.SymInt):
            self.numbers.append(value)
            return _Number(len(self.numbers) - 1)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            return None  # known to the compiler only
        if isinstance(value, torch.Size):
            return value if all(type(part) is int for part in value) else [self._take(part) for part in value]
        return with_parts(value, lambda _, part: self._take(part)) if isinstance(value, _CONTAINERS) else value


NO_VALUES = Packed()


def pack(value: Any) -> Packed:
    """Take apart what ``plain`` has left of arguments or of a result."""
    packed = Packed()
    packed._shape = packed._take(value)
    return packed


def plain(value: Any, depth: int) -> Any:
    """What of ``value`` can stand in a graph: tensors, constants and containers of them; None for anything else."""
    if value is None or isinstance(value, (torch.Tensor, bool, int, float, str, torch.dtype, torch.device, torch.Size)):
        return value
    if depth == 0:
        return None
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name), depth - 1) for name in value._fields}
    if isinstance(value, (list, tuple)):
        return [plain(part, depth - 1) for part in value]
    if isinstance(value, dict):
        return {str(key): plain(part, depth - 1) for key, part in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name, None), depth - 1) for name in value.__dataclass_fields__}
    return None


def is_trace(value: Any) -> bool:
    """Whether this is a trace, not a run: the tensors are fake, or a mode is active that makes them so."""
    return detect_fake_mode(tensors_in(value, torch.Tensor)) is not None


def _unpack(shape: Any, tensors: list[torch.Tensor], numbers: list[int]) -> Any:
    if isinstance(shape, _Tensor):
        tensor = tensors[shape.index]
        return tensor.detach().requires_grad_() if shape.wants_gradient else tensor
    if isinstance(shape, _Number):
        return numbers[shape.index]
    if isinstance(shape, torch.Size):
        return shape
    if isinstance(shape, _CONTAINERS):
        return with_parts(shape, lambda _, part: _unpack(part, tensors, numbers))
    return shape
