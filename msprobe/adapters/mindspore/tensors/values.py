"""Describe in dump.json the types of arguments that MindSpore adds to those of Python.

A ``GraphValue`` is a tensor of a compiled graph while the graph runs: its values as numpy array, its facts as
MindSpore's. It is no ``mindspore.Tensor``, because constructing one, or asking it for its values, would wait for the
very graph that is running.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mindspore
import numpy as np
from mindspore.common import dtype as dtypes

from msprobe.core.capture.describe import Expansion, Handler, Node
from msprobe.core.tensors.dtypes import ALL_DTYPES, find_dtype, mindspore_name

_NAMES = {dtype.name: mindspore_name(dtype) for dtype in ALL_DTYPES}
"""The names of MindSpore's dtypes, by those of numpy."""


class MindSporeValues:
    """Implements ``Values`` for MindSpore."""

    def is_tensor(self, kind: type) -> bool:
        return issubclass(kind, (mindspore.Tensor, GraphValue))

    def handlers(self) -> Mapping[type, Handler | Expansion]:
        return {
            type(kind): _dtype for kind in (mindspore.float32, mindspore.int64, mindspore.bool_, mindspore.bfloat16)
        }

    def by_keyword(self) -> Mapping[str, Handler]:
        return {"dtype": _dtype_argument}


class GraphValue:
    """A tensor with the attributes that ``MindSporeTensorOps`` reads.

    Args:
        array: the values; memory of the graph, to be used before it goes on.
        scalar: the tensor has no dimension, the graph only hands over one-dimensional ones.
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any, scalar: bool) -> None:
        values = np.asarray(array)
        self._array = values.reshape(()) if scalar else values

    @property
    def dtype(self) -> str:
        """Return the name of MindSpore's dtype."""
        name = self._array.dtype.name
        return _NAMES.get(name) or _NAMES.setdefault(name, name.capitalize())

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape in elements."""
        return tuple(self._array.shape)

    def asnumpy(self) -> Any:
        """Return the elements in the memory of the graph."""
        return self._array

    def copy(self) -> GraphValue:
        """Return a value with its own copy of the elements."""
        return GraphValue(self._array.copy(), not self._array.ndim)


def dtype_name(kind: Any) -> str:
    """Return the name of a dtype as MindSpore prints it (Float32); mindtorch makes it print mindspore.float32."""
    printed = str(kind)
    known = find_dtype(printed) if printed.startswith("mindspore.") else None
    return printed if known is None else mindspore_name(known)


def _dtype(value: Any, place: str, around: tuple[int, ...]) -> Node:
    return {"type": "mindspore.dtype", "value": dtype_name(value)}


def _dtype_argument(value: Any, place: str, around: tuple[int, ...]) -> Node:
    is_dtype = isinstance(value, (dtypes.Type, str, int, float))
    return _dtype(value, place, around) if is_dtype else None
