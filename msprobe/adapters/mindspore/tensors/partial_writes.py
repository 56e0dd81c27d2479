"""The flags of the elements of a memory that are written part by part, as an array of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import mindspore
import numpy as np

from msprobe.core.capture.partial_writes import mark


class WrittenElements:
    """The elements of one memory that are written.

    Args:
        tensor: lies in the memory; its dtype says how large an element is.
        size: the bytes of the memory.
    """

    def __init__(self, tensor: Any, size: int) -> None:
        self._item = tensor.itemsize
        self._flags = np.zeros(size // self._item, np.bool_)

    def mark(self, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Mark what a call of ``api`` has written; return False where this is not known."""
        flags = self._flags_of(args[0])
        return flags is not None and mark(_ArrayFlags(flags), api, args, kwargs)

    def cover(self, tensor: Any) -> bool:
        """Return whether every element of ``tensor`` is written."""
        flags = self._flags_of(tensor)
        return flags is not None and bool(flags.all())

    def copy(self) -> WrittenElements:
        """Return the same of a copy of the memory."""
        other = copy(self)
        other._flags = self._flags.copy()
        return other

    def _flags_of(self, tensor: Any) -> Any:
        """Return the flags of the elements of ``tensor``; None where its elements are larger or smaller."""
        if tensor.itemsize != self._item:
            return None
        strides = tuple(tensor.stride())  # in elements, as the flags have one byte each
        return np.lib.stride_tricks.as_strided(self._flags[tensor.storage_offset() :], tensor.shape, strides)


class _ArrayFlags:
    """Implements ``Flags`` with an array of bool."""

    def __init__(self, flags: Any) -> None:
        self._flags = flags

    def set_all(self) -> None:
        self._flags[...] = True

    def set_at(self, index: Any) -> None:
        self._flags[_as_numpy(index)] = True

    def set_along(self, dim: int, index: Any) -> None:
        np.moveaxis(self._flags, dim, 0)[_as_numpy(index)] = True

    def set_masked(self, mask: Any) -> None:
        self._flags[np.broadcast_to(_as_numpy(mask), self._flags.shape)] = True

    def set_scattered(self, dim: int, index: Any) -> None:
        places = _as_numpy(index)
        others = list(np.indices(places.shape, sparse=True))
        others[dim] = places
        self._flags[tuple(others)] = True


def _as_numpy(index: Any) -> Any:
    """Return an index of the program with arrays in place of its tensors."""
    if isinstance(index, mindspore.Tensor):
        return index.asnumpy()
    return tuple(map(_as_numpy, index)) if isinstance(index, tuple) else index
