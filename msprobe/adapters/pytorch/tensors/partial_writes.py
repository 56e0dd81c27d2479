"""The flags of the elements of a memory that are written part by part, as a tensor on the device of the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import torch

from msprobe.adapters.pytorch.tensors.memory import PLAIN, WithoutAutograd
from msprobe.core.capture.partial_writes import mark

_zeros = torch._C._VariableFunctions.zeros
_fill_ = torch._C.TensorBase.fill_
_index_fill_ = torch._C.TensorBase.index_fill_
_masked_fill_ = torch._C.TensorBase.masked_fill_
_scatter_ = torch._C.TensorBase.scatter_
_set_item = torch._C.TensorBase.__setitem__


class WrittenElements:
    """The elements of one memory that are written. No mode of the user sees what it does.

    Args:
        tensor: lies in the memory; its dtype says how large an element is.
        size: the bytes of the memory.
    """

    def __init__(self, tensor: torch.Tensor, size: int) -> None:
        self._item = tensor.element_size()
        with WithoutAutograd(), torch._C._DisableTorchDispatch():
            self._flags = _zeros(size // self._item, dtype=torch.bool, device=tensor.device)

    def mark(self, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Mark what a call of ``api`` has written; return False where this is not known."""
        with WithoutAutograd(), torch._C._DisableTorchDispatch():
            flags = self._flags_of(args[0])
            return flags is not None and mark(_TensorFlags(flags), api, args, kwargs)

    def cover(self, tensor: torch.Tensor) -> bool:
        """Return whether every element of ``tensor`` is written. The host waits for a device."""
        with WithoutAutograd(), torch._C._DisableTorchDispatch():
            flags = self._flags_of(tensor)
            return flags is not None and bool(flags.all())

    def copy(self) -> WrittenElements:
        """Return the same of a copy of the memory."""
        other = copy(self)
        with WithoutAutograd(), torch._C._DisableTorchDispatch():
            other._flags = self._flags.clone()
        return other

    def _flags_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the flags of the elements of ``tensor``; None where its elements are larger or smaller."""
        if type(tensor) not in PLAIN or tensor.element_size() != self._item:
            return None
        return self._flags.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class _TensorFlags:
    """Implements ``Flags`` with a tensor of bool."""

    def __init__(self, flags: torch.Tensor) -> None:
        self._flags = flags

    def set_all(self) -> None:
        _fill_(self._flags, True)

    def set_at(self, index: Any) -> None:
        _set_item(self._flags, index, True)

    def set_along(self, dim: int, index: torch.Tensor) -> None:
        _index_fill_(self._flags, dim, index, True)

    def set_masked(self, mask: torch.Tensor) -> None:
        _masked_fill_(self._flags, mask, True)

    def set_scattered(self, dim: int, index: torch.Tensor) -> None:
        _scatter_(self._flags, dim, index, True)
