"""A tensor of a compiled graph while the graph runs: its values as a numpy array, its dtype as MindSpore names it.

It is no ``mindspore.Tensor``: making one, or reading its values, would wait for the graph that is running.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from msprobe.core.tensors.dtypes import find_dtype, mindspore_name

_DTYPE_NAMES: dict[str, str] = {}  # by numpy's name


class GraphValue:
    """Has the attributes of a tensor that ``MindSporeTensorOps`` uses.

    Args:
        array: the values. Their memory belongs to the graph and must be used before the graph continues.
        scalar: the tensor has no dimension; a graph sends it in shape (1,).
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any, scalar: bool) -> None:
        values = np.asarray(array)
        self._array = values.reshape(()) if scalar else values

    @property
    def dtype(self) -> str:
        name = self._array.dtype.name
        return _DTYPE_NAMES.get(name) or _DTYPE_NAMES.setdefault(name, _name_of(name))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    def asnumpy(self) -> Any:
        return self._array

    def copy(self) -> GraphValue:
        """Return the same values in new memory."""
        return GraphValue(self._array.copy(), not self._array.ndim)


def _name_of(numpy_name: str) -> str:
    dtype = find_dtype(numpy_name)
    return numpy_name.capitalize() if dtype is None else mindspore_name(dtype)
