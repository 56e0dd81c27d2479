"""Memory of ``torch.empty`` that holds something else each time, as that of a GPU does."""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable
from typing import Any

import torch

_LEFTOVERS = random.Random(os.urandom(8))
_MAKERS = ("empty", "empty_like", "empty_strided", "empty_permuted")
_METHODS = ("new_empty", "new_empty_strided")


def leave_something_everywhere() -> None:
    """Fill every tensor that ``torch.empty`` and its relatives return from now on with other random values."""
    for owner, names in ((torch, _MAKERS), (torch.Tensor, _METHODS)):
        for name in names:
            setattr(owner, name, _leave_something(getattr(owner, name)))


def _leave_something(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``make`` with random values, NaN and infinities among them, in the memory that it returns."""

    def made(*args: Any, **kwargs: Any) -> Any:
        tensor = make(*args, **kwargs)
        if type(tensor) is torch.Tensor and tensor.is_cpu and tensor.numel() and not torch.compiler.is_compiling():
            size = tensor.untyped_storage().nbytes()
            ctypes.memmove(tensor.data_ptr(), _LEFTOVERS.randbytes(size), size)  # nothing of torch sees it
        return tensor

    return made
