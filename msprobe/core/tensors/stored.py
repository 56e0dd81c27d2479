"""A tensor in a file, whose elements are read on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file.

    Attributes:
        shape: elements per dimension.
        dtype: a name of ``core.tensors.dtypes``.
        read: returns an array of ``shape`` in the dtype's container (raw bits where numpy lacks the dtype); raises
            ReadError when the elements cannot be read.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], NDArray[Any]]

    @property
    def numel(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)
