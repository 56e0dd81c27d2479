"""Describe, measure and save ``mindspore.Tensor``.

On a CPU everything is measured on the host: several of MindSpore's reductions have no CPU kernel, and the compiled
kernel reads memory in one pass. A dense tensor is read in place, at its address, which MindSpore returns when the value
is computed. All others are read through the array of ``asnumpy``, which is several times slower. A device measures by
itself, and all numbers are copied at once per ``settle`` (``device_reductions``). Checksums and files copy the values
to the host.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore
import numpy as np

from msprobe.adapters.mindspore.bfloat16_values import bits_of, from_bits, widened
from msprobe.adapters.mindspore.device_reductions import DeviceStatistics
from msprobe.adapters.mindspore.graph_value import GraphValue
from msprobe.adapters.mindspore.runtime_facts import on_cpu
from msprobe.adapters.mindspore.versions import address_of_tensors
from msprobe.core.store.atomic import create_new
from msprobe.core.tensors.checksum import crc32, xor
from msprobe.core.tensors.dtypes import DType, find_dtype
from msprobe.core.tensors.numpy_ops import decode
from msprobe.core.tensors.numpy_ops import statistics as numpy_statistics
from msprobe.core.tensors.projection import KEY, projection
from msprobe.native import fused

Numbers = tuple[Any, Any, Any, Any]
_TYPE = "mindspore.Tensor"
_CORE = mindspore.Tensor.__mro__[-2]
"""The C++ class of tensors; its methods are used directly, which saves a Python call for each tensor."""
_IS_CONTIGUOUS: Any = _CORE.is_contiguous
_DATA_PTR: Any = address_of_tensors()
_NOTHING = (None, None, None, None)
_LOWEST_ADDRESS = 1 << 12  # a tensor whose initializer has not run yet has address 0
_DTYPES: dict[int, tuple[Any, str, DType | None]] = {}
"""By the identity of the framework's dtype, which is kept here; hashing it takes longer than measuring a tensor."""
_DTYPE_LIMIT = 256


class MindSporeTensorOps:
    """Implements ``TensorOps`` for MindSpore.

    Args:
        precision: ``low`` rounds Mean and Norm to the tensor's own dtype, ``high`` keeps float32 or better.
        native: use the compiled kernel where it exists; False measures with numpy only.
    """

    suffix = ".npy"

    def __init__(self, precision: str = "low", native: bool = True) -> None:
        self._high = precision == "high"
        self._summary = fused.summary if fused is not None and native else None
        self._in_place = self._summary is not None and _DATA_PTR is not None and on_cpu()
        self._device = None if on_cpu() else DeviceStatistics("high" if self._high else "low")
        self._readable: dict[type, bool] = {}  # by type; the type of parameters is made at run time

    def describe(self, tensor: Any, statistics: bool) -> dict[str, Any]:
        readable = self._readable.get(type(tensor))
        if readable is None:
            readable = self._check_type(type(tensor))
        if not readable:
            return self._describe_any(tensor, statistics)
        kind = tensor._dtype
        _, name, dtype = _DTYPES.get(id(kind)) or _add_dtype(kind)
        if not statistics:
            return {"type": _TYPE, "dtype": name, "shape": tensor._shape}
        top, low, mean, norm = self._read(tensor, dtype)
        return {
            "type": _TYPE,
            "dtype": name,
            "shape": tensor._shape,
            "Max": top,
            "Min": low,
            "Mean": mean,
            "Norm": norm,
        }

    def describe_with_checksum(self, tensor: Any, statistics: bool, kind: str) -> dict[str, Any]:
        return {**self.describe(tensor, statistics), "md5": self.checksum(tensor, kind)}

    @property
    def outstanding(self) -> bool:
        return self._device is not None and self._device.outstanding

    def settle(self) -> None:
        if self._device is not None:
            self._device.settle()

    def project(self, tensor: Any, node: dict[str, Any]) -> None:
        node[KEY] = None
        array, dtype = host(tensor), find_dtype(str(tensor.dtype))
        if array is None or array.size == 0 or dtype is None or dtype.itemsize != array.dtype.itemsize:
            return
        bits = array if dtype.is_native else array.view(dtype.container)
        node[KEY] = projection(decode(bits, dtype))

    def checksum(self, tensor: Any, kind: str) -> str | None:
        array = host(tensor)
        if array is None:
            return None
        if array.size == 0:
            return "00000000" if kind == "crc32" else None
        data = _bytes(array)
        return crc32(data) if kind == "crc32" else xor(data)

    def snapshot(self, tensor: Any) -> tuple[Callable[[], Any], int] | None:
        array = host(tensor)
        if array is None:
            return None
        if isinstance(tensor, GraphValue):
            copy: Any = tensor.copy()
        else:
            copy = mindspore.Tensor(_of_numpy(array, tensor).copy(), tensor.dtype)
        return (lambda: copy), array.nbytes

    def save(self, tensor: Any, path: Path) -> bool:
        array = host(tensor)
        if array is None:
            return False
        array = _of_numpy(array, tensor)
        if array.dtype.kind == "V" or array.dtype.name == "bfloat16":  # no dtype of the npy format
            array = array.astype(np.float32)
        with os.fdopen(create_new(path), "wb") as file:
            np.save(file, array, allow_pickle=False)
        return True

    def _by_device(self, device: DeviceStatistics, tensor: Any, dtype: DType | None, node: dict[str, Any]) -> bool:
        """Return whether the device measures the tensor; without a needed operator the host does."""
        if dtype is None or isinstance(tensor, GraphValue) or not tensor.size:
            return False
        try:
            return device.add(tensor, dtype, node)
        except (RuntimeError, TypeError, ValueError):
            return False

    def _describe_any(self, tensor: Any, statistics: bool) -> dict[str, Any]:
        kind = tensor.dtype
        _, name, dtype = _DTYPES.get(id(kind)) or _add_dtype(kind)
        node: dict[str, Any] = {"type": _TYPE, "dtype": name, "shape": tuple(tensor.shape)}
        if statistics:
            node["Max"] = node["Min"] = node["Mean"] = node["Norm"] = None
            if self._device is None or not self._by_device(self._device, tensor, dtype, node):
                node["Max"], node["Min"], node["Mean"], node["Norm"] = self._copied(tensor, dtype)
        return node

    def _check_type(self, kind: type) -> bool:
        self._readable[kind] = readable = self._in_place and issubclass(kind, mindspore.Tensor)
        return readable

    def _read(self, tensor: Any, dtype: DType | None) -> Numbers:
        """Measure the memory at the tensor's address, or a copy when it is not dense or has no address yet."""
        if dtype is not None and dtype.code >= 0 and _IS_CONTIGUOUS(tensor) and (count := tensor._size):
            try:
                pointer = _DATA_PTR(tensor)
            except RuntimeError:  # a failed kernel of the user's program, see ``host``
                return _NOTHING
            if pointer >= _LOWEST_ADDRESS:
                return self._summary(pointer, count, dtype.code, self._high)  # type: ignore[misc]
        return self._copied(tensor, dtype)

    def _copied(self, tensor: Any, dtype: DType | None) -> Numbers:
        array = None if dtype is None else host(tensor)
        if dtype is None or array is None or array.size == 0 or dtype.itemsize != array.dtype.itemsize:
            return _NOTHING
        return self._summarise(array, dtype)

    def _summarise(self, array: Any, dtype: DType) -> Numbers:
        if self._summary is not None and dtype.code >= 0:
            dense = array if array.flags.c_contiguous else np.ascontiguousarray(array)
            return self._summary(dense.ctypes.data, dense.size, dtype.code, self._high)
        bits = array if dtype.is_native else array.view(dtype.container)
        stats = numpy_statistics(bits, dtype.name, "high" if self._high else "low")
        return stats.max, stats.min, stats.mean, stats.norm


def _add_dtype(kind: Any) -> tuple[Any, str, DType | None]:
    name = str(kind)
    entry = kind, name, find_dtype(name)
    if len(_DTYPES) < _DTYPE_LIMIT:  # in case each tensor has its own dtype object
        _DTYPES[id(kind)] = entry
    return entry


def host(tensor: Any) -> Any:
    """Return the values as a numpy array, which may share the tensor's memory; None when there are no values.

    Values of bfloat16 are their bits as uint16 where numpy has no dtype for them. An error of a kernel of the user's
    program can be raised here and is dropped; MindSpore raises it again where the user reads the value.
    """
    try:
        return tensor.asnumpy()
    except TypeError:
        return _bits(tensor)
    except (RuntimeError, ValueError, AttributeError):
        return None


def _bits(tensor: Any) -> Any:
    try:
        return bits_of(widened(tensor)) if tensor.dtype == mindspore.bfloat16 else None
    except (RuntimeError, TypeError, ValueError):
        return None


def _of_numpy(array: Any, tensor: Any) -> Any:
    """Return the result of ``host`` for ``tensor`` as numbers: bits of bfloat16 are converted to float32."""
    return from_bits(array) if array.dtype == np.uint16 and tensor.dtype == mindspore.bfloat16 else array


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
