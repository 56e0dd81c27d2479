"""Pack arguments and results for an operator, which takes only lists of tensors and of integers.

The rest (nesting, constants, whether a tensor requires a gradient) is kept in Python since the graph was traced.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import detect_fake_mode

from msprobe.core.capture.containers import tensors_in, with_parts

DEPTH_LIMIT = 16
_CONTAINERS = (list, tuple, dict)


class _PackedTensor:
    __slots__ = ("index", "requires_grad")

    def __init__(self, index: int, requires_grad: bool) -> None:
        self.index = index
        self.requires_grad = requires_grad


class _PackedNumber:
    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Packed:
    """A nested value as tensors, numbers and a shape; ``unpack`` puts it together with the values of one run."""

    __slots__ = ("_shape", "numbers", "tensors")

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.numbers: list[Any] = []
        self._shape: Any = None

    def clear(self) -> None:
        """Release the tensors and numbers of the trace."""
        self.tensors, self.numbers = [], []

    def unpack(self, tensors: list[torch.Tensor], numbers: list[int]) -> Any:
        """Return the nested value with the tensors and numbers of one run."""
        return _unpack(self._shape, tensors, numbers)

    def _take(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            self.tensors.append(value.detach())
            return _PackedTensor(len(self.tensors) - 1, value.requires_grad)
        if isinstance(value, torch.SymInt):
            self.numbers.append(value)
            return _PackedNumber(len(self.numbers) - 1)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            return None  # only the compiler knows its value
        if isinstance(value, torch.Size):
            return value if all(type(part) is int for part in value) else [self._take(part) for part in value]
        return with_parts(value, lambda _, part: self._take(part)) if isinstance(value, _CONTAINERS) else value


NO_VALUES = Packed()


def pack(value: Any) -> Packed:
    """Pack arguments or a result that ``plain`` has returned."""
    packed = Packed()
    packed._shape = packed._take(value)
    return packed


def plain(value: Any, depth: int) -> Any:
    """Return what of ``value`` can stand in a graph: tensors, constants and containers of them; None for all else.

    Dynamo traces this function, so it looks into containers by itself and not with ``parts_of``.
    """
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
    """Return whether this is a trace and not a run: the tensors are fake, or a mode is active that makes them so."""
    return detect_fake_mode(tensors_in(value, torch.Tensor)) is not None


def _unpack(shape: Any, tensors: list[torch.Tensor], numbers: list[int]) -> Any:
    if isinstance(shape, _PackedTensor):
        tensor = tensors[shape.index]
        return tensor.detach().requires_grad_() if shape.requires_grad else tensor
    if isinstance(shape, _PackedNumber):
        return numbers[shape.index]
    if isinstance(shape, torch.Size):
        return shape
    if isinstance(shape, _CONTAINERS):
        return with_parts(shape, lambda _, part: _unpack(part, tensors, numbers))
    return shape
