"""A tensor of a kernel dump: what the readers of all formats return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import widened
from msprobe.core.tensor_files.npu_layouts import to_plain
from msprobe.core.tensor_files.pieces import in_any_order, in_order
from msprobe.core.tensors.dtypes import DType, find_dtype

Pieces = tuple[tuple[int, ...], Iterator[NDArray[Any]]]
Result = TypeVar("Result")
MOST_AXES = 32
"""How many axes numpy's arrays have at most."""
_MOST_SHOWN = 8
INT4 = "int4"
"""A type of files alone, two elements a byte with the first in the low half: read as int8."""
_UNREAD = find_dtype("uint8")


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """One tensor in a file.

    Attributes:
        name: what it is called in its file (``input.0``), or the name of the file.
        dtype: its type, a name of ``core.tensors.dtypes``.
        shape: as it is stored.
        layout: a name of ``npu_layouts.FORMATS``.
        original: its shape in the program, where the file says so.
        data: its bytes.
        problem: why the elements cannot be read; empty where they can.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    layout: str
    original: tuple[int, ...] | None
    data: memoryview
    problem: str = ""

    def stored(self) -> NDArray[Any]:
        """Return the elements as they are stored, in the container of the dtype (bits where numpy lacks it).

        Raises:
            ReadError: the type cannot be read, or the bytes are not as many as the shape says.
        """
        if self.problem:
            raise ReadError(f"{self.name}: {self.problem}")
        if len(self.shape) > MOST_AXES or min(self.shape, default=0) < 0:
            raise ReadError(f"{self.name}: no tensor has {_shape_text(self.shape)}; the file is damaged")
        size = prod(self.shape) * self.dtype.itemsize
        if size != len(self.data):
            raise ReadError(
                f"{self.name}: {len(self.data)} bytes do not fit {_shape_text(self.shape)} of {self.dtype.name}"
            )
        return np.frombuffer(self.data, self.dtype.container).reshape(self.shape)

    def bits(self) -> NDArray[Any]:
        """Return the elements in the layout of the program, in the container of the dtype.

        Raises:
            ReadError: bytes, shape and layout do not fit.
        """
        return self._of_layout(to_plain)

    def pieces(self, ordered: bool) -> Pieces:
        """Return the shape in the program, and the elements of ``bits`` in contiguous pieces.

        Args:
            ordered: whether the pieces follow the order of rows.

        Raises:
            ReadError: as ``bits``.
        """
        return self._of_layout(in_order if ordered else in_any_order)

    def _of_layout(self, read: Callable[[NDArray[Any], str, tuple[int, ...] | None], Result]) -> Result:
        stored = self.stored()
        original = None if self.original is None or prod(self.original) == 0 else self.original
        try:
            return read(stored, self.layout, original)
        except ReadError as error:
            raise ReadError(f"{self.name}: {error.error_info}") from error

    def values(self) -> NDArray[Any]:
        """Return the elements as numbers: bfloat16 and 8-bit floats become float32, which holds them exactly.

        Raises:
            ReadError: as ``bits``.
        """
        return widened(self.bits(), self.dtype.name)


def kernel_tensor(tensor: KernelTensor, number: int, names: Mapping[int, str]) -> KernelTensor:
    """Return a tensor with the type that a file gives as a number.

    A type that cannot be read is no reason to refuse the other tensors of the file: it is kept as ``problem``.

    Args:
        tensor: the tensor, of any type.
        number: the number of the type in the file.
        names: the types by number.
    """
    name = names.get(number, "")
    dtype = find_dtype("int8" if name == INT4 else name)
    if dtype is None:
        return replace(tensor, problem=f"data type {number} cannot be read")
    if name == INT4:
        return replace(tensor, dtype=dtype, data=_unpacked(tensor.data, prod(tensor.shape[:MOST_AXES])))
    return replace(tensor, dtype=dtype)


def unread_dtype() -> DType:
    """Return the type of a tensor whose own is not known yet: that of bytes."""
    assert _UNREAD is not None
    return _UNREAD


def _unpacked(data: memoryview, count: int) -> memoryview:
    """Return a byte for each of the elements of int4; of an odd number the last half is left out."""
    pairs = np.frombuffer(data, np.int8)
    halves = np.empty((len(pairs), 2), np.int8)
    halves[:, 0] = (pairs << 4) >> 4
    halves[:, 1] = pairs >> 4
    whole = halves.reshape(-1)
    return (whole[:count] if count == len(whole) - 1 else whole).data.cast("B")


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"shape {list(shape)}" if len(shape) <= _MOST_SHOWN else f"a shape of {len(shape)} axes"
