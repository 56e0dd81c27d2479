"""Facts, statistics, checksums and files of ``mindspore.Tensor``.

On a CPU the host measures: several of MindSpore's reductions have no CPU kernel, and the compiled kernel reads memory
in one pass. It reads a dense tensor in place, at the address that MindSpore returns when the value is computed; for
other tensors ``asnumpy`` is used, which is several times as slow. A device measures by itself, and ``settle`` copies
all its numbers at once (``device_reductions``); checksums and files copy the values to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mindspore
import numpy as np

from msprobe.adapters.mindspore.runtime_facts import on_cpu
from msprobe.adapters.mindspore.tensors.bfloat16 import bits_of, from_bits, widened
from msprobe.adapters.mindspore.tensors.memory import HAS_ADDRESSES, address
from msprobe.adapters.mindspore.tensors.reductions import DeferredStatistics
from msprobe.adapters.mindspore.tensors.unwritten import MindSporeUnwrittenMemory
from msprobe.adapters.mindspore.tensors.values import GraphValue, dtype_name
from msprobe.core.dump.record.declared_shards import USED, declared
from msprobe.core.interruption import let_through
from msprobe.core.store.record_walk import UNINITIALISED
from msprobe.core.store.safe_files import replacement_file
from msprobe.core.tensors.checksums import crc32, xor
from msprobe.core.tensors.dtypes import DType, find_dtype
from msprobe.core.tensors.numpy_ops import decode
from msprobe.core.tensors.numpy_ops import statistics as numpy_statistics
from msprobe.core.tensors.projection import KEY, set_measured
from msprobe.core.tensors.projection import projection as projection_of
from msprobe.core.tensors.statistics import NO_STATS, set_statistics
from msprobe.native import measuring

_TYPE = "mindspore.Tensor"
_DTYPES: dict[int, tuple[Any, str, DType | None]] = {}
"""By ``id`` of the framework's dtype, which is kept here: hashing a dtype takes longer than measuring a tensor."""
_MOST_DTYPES = 256


class MindSporeTensorOps:
    """Implements ``TensorOps`` for MindSpore.

    Args:
        precision: ``low`` rounds Mean and Norm to the tensor's own dtype, ``high`` keeps float32 or better.
        native: use the compiled kernel where it exists; False measures with numpy alone.
        unwritten: knows the memory that nobody has written, whose content is no value.
    """

    suffix = ".npy"
    arrivals = None

    def __init__(
        self, precision: str = "low", native: bool = True, unwritten: MindSporeUnwrittenMemory | None = None
    ) -> None:
        self._unwritten = unwritten or MindSporeUnwrittenMemory()
        self._known = self._unwritten.known  # asked of every tensor: while it is empty, that is all
        self._high = precision == "high"
        self._summary = measuring.summary if measuring is not None and native else None
        self._in_place = self._summary is not None and HAS_ADDRESSES and on_cpu()
        self._device = None if on_cpu() else DeferredStatistics("high" if self._high else "low")
        self._readable: dict[type, bool] = {}  # filled at run time: MindSpore creates the type of parameters then

    def describe(self, tensor: Any, statistics: bool, projection: bool = False) -> dict[str, Any]:
        if self._known and self._unwritten.holds(tensor):
            return self._without_values(tensor, statistics)
        readable = self._readable.get(type(tensor))
        if readable is None:
            readable = self._check_readable(type(tensor))
        if not readable:
            return self._describe_any(tensor, statistics, projection)
        kind = tensor._dtype
        _, name, dtype = _DTYPES.get(id(kind)) or _remember_dtype(kind)
        node = {"type": _TYPE, "dtype": name, "shape": tensor._shape}
        if statistics:
            set_measured(node, self._read(tensor, dtype, projection))
        return declared(tensor, node) if USED else node

    def note_memory(self, tensor: Any, node: dict[str, Any]) -> None:
        """Add nothing: MindSpore has no public way from a tensor to its storage and the version of its content."""

    def below_transforms(self, tensor: Any) -> Any:
        """Return the tensor: no tensor of MindSpore stands for another."""
        return tensor

    def describe_with_checksum(
        self, tensor: Any, statistics: bool, kind: str, projection: bool = False
    ) -> dict[str, Any]:
        return {**self.describe(tensor, statistics, projection), "md5": self.checksum(tensor, kind)}

    @property
    def outstanding(self) -> bool:
        return self._device is not None and self._device.outstanding

    def settle(self) -> None:
        if self._device is not None:
            self._device.settle()

    def project(self, tensor: Any, node: dict[str, Any]) -> None:
        if self._unwritten.holds(tensor):
            return
        node[KEY] = None
        array, dtype = host(tensor), find_dtype(str(tensor.dtype))
        if array is None or array.size == 0 or dtype is None or dtype.itemsize != array.dtype.itemsize:
            return
        bits = array if dtype.is_native else array.view(dtype.container)
        node[KEY] = projection_of(decode(bits, dtype))

    def checksum(self, tensor: Any, kind: str) -> str | None:
        array = self._host(tensor)
        if array is None:
            return None
        if array.size == 0:
            return "00000000" if kind == "crc32" else None
        data = _bytes(array)
        return crc32(data) if kind == "crc32" else xor(data)

    def snapshot(self, tensor: Any) -> tuple[Callable[[], Any], int] | None:
        array = self._host(tensor)
        if array is None:
            return None
        if isinstance(tensor, GraphValue):
            copy: Any = tensor.copy()
        else:
            copy = mindspore.Tensor(_of_numpy(array, tensor).copy(), tensor.dtype)
        return (lambda: copy), array.nbytes

    def save(self, tensor: Any, path: str | Path) -> bool:
        array = self._host(tensor)
        if array is None:
            return False
        array, dtype = _of_numpy(array, tensor), find_dtype(str(tensor.dtype))
        if array.dtype.kind == "V" and array.dtype.names is not None:  # bytes of a dtype that numpy does not have
            if dtype is None or dtype.itemsize != array.dtype.itemsize:
                return False
            array = decode(array.view(dtype.container), dtype).astype(np.float32)
        elif array.dtype.kind == "V" or array.dtype.name == "bfloat16":  # no dtype of the npy format
            array = array.astype(np.float32)
        with replacement_file(path) as file:
            np.save(file, array, allow_pickle=False)
        return True

    def _host(self, tensor: Any) -> Any:
        """Return the values as ``host`` does; None also where nobody has written them."""
        return None if self._unwritten.holds(tensor) else host(tensor)

    def _without_values(self, tensor: Any, statistics: bool) -> dict[str, Any]:
        """Return the record of a tensor that nobody has written."""
        node: dict[str, Any] = {"type": _TYPE, "dtype": dtype_name(tensor.dtype), "shape": tuple(tensor.shape)}
        if statistics:
            set_statistics(node, NO_STATS)
        node[UNINITIALISED] = True
        return node

    def _by_device(self, device: DeferredStatistics, tensor: Any, dtype: DType | None, node: dict[str, Any]) -> bool:
        """Return whether the device measures the tensor; it does not when it lacks an operator."""
        if dtype is None or isinstance(tensor, GraphValue) or not tensor.size:
            return False
        try:
            return device.add(tensor, dtype, node)
        except (RuntimeError, TypeError, ValueError) as error:
            let_through(error)
            return False

    def _describe_any(self, tensor: Any, statistics: bool, projection: bool) -> dict[str, Any]:
        kind = tensor.dtype
        _, name, dtype = _DTYPES.get(id(kind)) or _remember_dtype(kind)
        node: dict[str, Any] = {"type": _TYPE, "dtype": name, "shape": tuple(tensor.shape)}
        if statistics:
            set_statistics(node, NO_STATS)
            if self._device is None or not self._by_device(self._device, tensor, dtype, node):
                set_measured(node, self._copied(tensor, dtype, projection))
        return declared(tensor, node) if USED else node

    def _check_readable(self, kind: type) -> bool:
        self._readable[kind] = readable = self._in_place and issubclass(kind, mindspore.Tensor)
        return readable

    def _read(self, tensor: Any, dtype: DType | None, projection: bool) -> Sequence[Any]:
        """Return the statistics of a tensor, read at its address; of a copy when it is not dense or has no address."""
        if dtype is not None and dtype.code >= 0 and (count := tensor._size):
            try:
                pointer = address(tensor)
            except RuntimeError as error:  # a failed kernel of the user's program, see ``host``
                let_through(error)
                return NO_STATS
            if pointer:
                return self._summary(pointer, count, dtype.code, self._high, projection)  # type: ignore[misc]
        return self._copied(tensor, dtype, projection)

    def _copied(self, tensor: Any, dtype: DType | None, projection: bool) -> Sequence[Any]:
        array = None if dtype is None else host(tensor)
        if dtype is None or array is None or array.size == 0 or dtype.itemsize != array.dtype.itemsize:
            return NO_STATS
        return self._summarise(array, dtype, projection)

    def _summarise(self, array: Any, dtype: DType, projection: bool) -> Sequence[Any]:
        if self._summary is not None and dtype.code >= 0:
            dense = array if array.flags.c_contiguous else np.ascontiguousarray(array)
            return self._summary(dense.ctypes.data, dense.size, dtype.code, self._high, projection)
        bits = array if dtype.is_native else array.view(dtype.container)
        return numpy_statistics(bits, dtype.name, "high" if self._high else "low")


def _remember_dtype(kind: Any) -> tuple[Any, str, DType | None]:
    name = dtype_name(kind)
    entry = kind, name, find_dtype(name)
    if len(_DTYPES) < _MOST_DTYPES:  # a dtype object per tensor would fill the memory
        _DTYPES[id(kind)] = entry
    return entry


def host(tensor: Any) -> Any:
    """Return the values as a numpy array, which may share the tensor's memory; None when there are none.

    Values of bfloat16 are returned as bits (uint16) when numpy has no dtype for them. A failed kernel of the user's
    program can raise here; MindSpore raises the error again where the user reads the value.
    """
    try:
        return tensor.asnumpy()
    except TypeError as error:
        let_through(error)
        return _bits(tensor)
    except (RuntimeError, ValueError, AttributeError) as error:
        let_through(error)
        return None


def _bits(tensor: Any) -> Any:
    try:
        return bits_of(widened(tensor)) if tensor.dtype == mindspore.bfloat16 else None
    except (RuntimeError, TypeError, ValueError) as error:
        let_through(error)
        return None


def numbers_of(tensor: Any) -> Any:
    """Return the values as an array of numbers that numpy knows, bfloat16 as float32; None when there are none."""
    array = host(tensor)
    if array is None:
        return None
    array = _of_numpy(array, tensor)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _of_numpy(array: Any, tensor: Any) -> Any:
    """Return the array that ``host`` returned for ``tensor`` in a dtype that holds its values."""
    return from_bits(array) if array.dtype == np.uint16 and tensor.dtype == mindspore.bfloat16 else array


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
