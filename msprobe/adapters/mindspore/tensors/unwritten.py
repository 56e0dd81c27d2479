"""Memory of MindSpore that nobody has written: there are no values to record.

MindSpore counts no writes, so each is seen by the functions that write, or by a sample of the bytes. Memory is known
where this process can read it at its address: on a CPU, from MindSpore 2.8.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import mindspore
from mindspore import mint

from msprobe.adapters.mindspore.runtime_facts import on_cpu
from msprobe.adapters.mindspore.tensors.memory import LOWEST
from msprobe.adapters.mindspore.tensors.partial_writes import WrittenElements
from msprobe.adapters.mindspore.versions import address_of_tensors, native_tensor
from msprobe.core.capture.partial_writes import LARGEST
from msprobe.core.capture.unwritten import Lifetime, UnwrittenMemory, host_sample

MAKERS: Mapping[Any, tuple[str, ...]] = {mint: ("empty", "empty_like"), mindspore.Tensor: ("new_empty",)}
"""The functions that return memory which nobody has written, by owner; ``empty`` of ``mindspore.numpy`` is zeros."""

_DATA_PTR: Any = address_of_tensors()
_PURGE = 64


class MindSporeUnwrittenMemory(UnwrittenMemory):
    """Implements ``UnwrittenMemory`` for MindSpore."""

    def is_plain(self, tensor: Any) -> bool:
        return isinstance(tensor, mindspore.Tensor)

    def is_sampled(self, tensor: Any) -> bool:
        return _DATA_PTR is not None and hasattr(native_tensor(), "untyped_storage") and on_cpu()

    def base(self, tensor: Any) -> int:
        return _base(tensor)

    def size(self, tensor: Any) -> int:
        return int(tensor.untyped_storage().nbytes()) if _base(tensor) >= LOWEST else 0

    def element_size(self, tensor: Any) -> int:
        return int(tensor.itemsize)

    def elements(self, tensor: Any) -> int:
        return int(tensor.size)

    def writes(self, tensor: Any) -> int:
        return 0

    def lifetime(self, tensor: Any) -> Lifetime:
        return _TensorsLifetime(tensor)

    def sample(self, tensor: Any, size: int) -> bytes:
        return host_sample(_base(tensor), size)

    def is_same_sample(self, sample: bytes, earlier: bytes) -> bool:
        return sample == earlier

    def written_elements(self, tensor: Any, size: int) -> WrittenElements | None:
        return None if size // tensor.itemsize > LARGEST else WrittenElements(tensor, size)


class _TensorsLifetime:
    """Knows how long a memory is in use: while one of the tensors lives that were seen in it, and lies in it still."""

    def __init__(self, tensor: Any) -> None:
        self._base = _base(tensor)
        self._tensors = {id(tensor): weakref.ref(tensor)}
        self._most = _PURGE

    def expired(self) -> bool:
        tensors = (reference() for reference in self._tensors.values())
        return not any(tensor is not None and _base(tensor) == self._base for tensor in tensors)

    def is_that_of(self, tensor: Any) -> bool:
        if self.expired():
            return False
        if len(self._tensors) >= self._most:
            self._tensors = {key: reference for key, reference in self._tensors.items() if reference() is not None}
            self._most = 2 * len(self._tensors) + _PURGE
        self._tensors[id(tensor)] = weakref.ref(tensor)
        return True


def _base(tensor: Any) -> int:
    return int(_DATA_PTR(tensor)) - int(tensor.storage_offset()) * int(tensor.itemsize)
