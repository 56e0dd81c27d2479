"""Which elements of a memory are written, where a program writes it part by part.

Between ``out = torch.empty(4, 8)`` and the last turn of a loop with ``out[i] = ...``, some rows have values and the
others have none; the same holds for a cache of which each call fills the next part. ``WRITERS`` has the functions of
which it is known what they write, each with a function that marks the same elements in a tensor of flags. What any
other function writes is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from msprobe.adapters.pytorch.tensors.memory import PLAIN

LARGEST = 1 << 26
"""Elements of a memory of which it is remembered which are written; parts of a larger one count as the whole."""
_zeros = torch._C._VariableFunctions.zeros
_index_put_ = torch._C.TensorBase.index_put_
_fill_ = torch._C.TensorBase.fill_
_index_fill_ = torch._C.TensorBase.index_fill_
_masked_fill_ = torch._C.TensorBase.masked_fill_
_scatter_ = torch._C.TensorBase.scatter_
_set_item = torch._C.TensorBase.__setitem__


def _whole(flags: torch.Tensor, *_args: Any, **_kwargs: Any) -> None:
    _fill_(flags, True)


def _at(flags: torch.Tensor, index: Any, _value: Any) -> None:
    _set_item(flags, index, True)


def _put(flags: torch.Tensor, indices: Sequence[Any], values: Any, accumulate: bool = False) -> None:
    if accumulate:
        raise ValueError
    _set_item(flags, tuple(slice(None) if index is None else index for index in indices), True)


def _along(flags: torch.Tensor, dim: int, index: torch.Tensor, *_values: Any, **_named: Any) -> None:
    _index_fill_(flags, dim, index, True)


def _masked(flags: torch.Tensor, mask: torch.Tensor, *_values: Any, **_named: Any) -> None:
    _masked_fill_(flags, mask, True)


def _scattered(flags: torch.Tensor, dim: int, index: torch.Tensor, *_values: Any, **named: Any) -> None:
    if "reduce" in named:
        raise ValueError
    _scatter_(flags, dim, index, True)


WRITERS: Mapping[str, Callable[..., None]] = {
    **dict.fromkeys(("copy_", "fill_", "zero_"), _whole),
    **dict.fromkeys(("normal_", "uniform_", "random_", "bernoulli_", "exponential_"), _whole),
    **dict.fromkeys(("cauchy_", "geometric_", "log_normal_"), _whole),
    "__setitem__": _at,
    "index_put_": _put,
    "index_copy_": _along,
    "index_fill_": _along,
    "masked_fill_": _masked,
    "masked_scatter_": _masked,
    "scatter_": _scattered,
}
"""Functions that write their first argument without reading it, with what marks the elements that they write."""


def writes_all(api: str) -> bool:
    """Return whether a call of ``api`` writes every element of its first argument."""
    return WRITERS[api] is _whole


class WrittenElements:
    """The elements of one memory that are written.

    Args:
        tensor: lies in the memory; its dtype says how large an element is.
        size: the bytes of the memory.
    """

    def __init__(self, tensor: torch.Tensor, size: int) -> None:
        self._item = tensor.element_size()
        self._flags = _zeros(size // self._item, dtype=torch.bool, device=tensor.device)

    def mark(self, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Mark what a call of ``api`` has written; return False where this is not known."""
        flags = self._flags_of(args[0])
        if flags is None:
            return False
        try:
            WRITERS[api](flags, *args[1:], **kwargs)
        except (RuntimeError, TypeError, ValueError, IndexError):  # written in a way that flags do not take
            return False
        return True

    def cover(self, tensor: torch.Tensor) -> bool:
        """Return whether every element of ``tensor`` is written. The host waits for a device."""
        flags = self._flags_of(tensor)
        return flags is not None and bool(flags.all())

    def _flags_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the flags of the elements of ``tensor``; None where its elements are larger or smaller."""
        if type(tensor) not in PLAIN or tensor.element_size() != self._item:
            return None
        return self._flags.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
