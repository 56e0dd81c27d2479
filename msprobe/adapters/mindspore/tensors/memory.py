"""Where the elements of a tensor of MindSpore lie, on a CPU."""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.versions import address_of_tensors, native_tensor

LOWEST = 1 << 12
"""No memory lies below: a tensor whose initializer has not run yet gives 0."""
_IS_CONTIGUOUS: Any = native_tensor().is_contiguous  # of the C++ class, which saves a Python call each
_DATA_PTR: Any = address_of_tensors()
HAS_ADDRESSES = _DATA_PTR is not None
"""Whether this version of MindSpore tells addresses."""


def address(tensor: Any) -> int:
    """Return the address of the first element of a dense tensor; 0 where it has none.

    Raises:
        RuntimeError: a kernel of the user's program failed, as it would where the value is read.
    """
    if not HAS_ADDRESSES or not _IS_CONTIGUOUS(tensor):
        return 0
    pointer: int = _DATA_PTR(tensor)
    return pointer if pointer >= LOWEST else 0
