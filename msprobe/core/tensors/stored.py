"""A tensor that lies in a file: its facts are known, its elements are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """``dtype`` is a name of ``core.tensors.dtypes``; ``read`` gives an array of ``shape`` in the dtype's container
    (raw bits where numpy lacks the dtype), and raises ReadError when it cannot.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], NDArray[Any]]

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return prod(self.shape)
