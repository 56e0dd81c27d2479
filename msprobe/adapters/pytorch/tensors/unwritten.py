"""Memory that nobody has written, and arguments that an operation does not read: neither has values to record.

``torch.empty`` and its relatives return what happens to lie in the memory; on a GPU that differs from run to run.
``UnwrittenMemory`` knows such memory from the call that made it until something is written there. A write by an
operation of torch raises the version of the tensor. Other writes (kernels that get the address, collectives, numpy) are
seen by a sample of the bytes. Where a program writes part by part, in ways that are known, a tensor counts as written
once all of its elements are (``partial_writes``); any other write counts as one of the whole memory. On a device the
first sample stays there; the host waits for it only where such memory is measured or a part of it is written, which is
rare.

``read_arguments`` replaces the arguments that an operation is given without reading them by tensors without values:
``out``, and the first operand of ``addmm`` and the like with ``beta=0``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from msprobe.adapters.pytorch.tensors.memory import PLAIN, address, storage
from msprobe.adapters.pytorch.tensors.partial_writes import LARGEST, WrittenElements, writes_all

MAKERS: Mapping[Any, tuple[str, ...]] = {
    torch: ("empty", "empty_like", "empty_strided", "empty_permuted"),
    torch.Tensor: ("new", "new_empty", "new_empty_strided"),
}
"""The functions that return memory which nobody has written, by owner; ``new`` does where it is given sizes alone."""
GROWING = frozenset({"resize_", "resize_as_"})
"""Functions whose result is such memory where the tensor had none before."""

_SAMPLES = 64
_PURGE = 256
_OPTIONAL = frozenset({
    "addbmm", "addbmm_", "addmm", "addmm_", "addmv", "addmv_", "addr", "addr_", "baddbmm", "baddbmm_", "sspaddmm",
})  # fmt: skip
"""Functions that do not read their first operand where ``beta`` is 0."""
_empty = torch._C._VariableFunctions.empty


class NotRead(torch.Tensor):
    """Stands for a tensor that an operation is given and does not read: shape and dtype, and no values."""


class UnwrittenMemory:
    """The memory that the program has got and not written; it holds nothing alive."""

    def __init__(self) -> None:
        self._made: dict[int, _Memory] = {}

    @property
    def knows_any(self) -> bool:
        """Whether any memory is known."""
        return bool(self._made)

    def is_written(self, tensor: Any) -> bool:
        """Return whether ``tensor`` has memory that somebody has written; True for what is no plain tensor."""
        return type(tensor) not in PLAIN or (storage(tensor).nbytes() > 0 and not self.holds(tensor))

    def add(self, tensor: Any) -> None:
        """Know ``tensor`` as memory that nobody has written; anything but a tensor with memory is ignored."""
        try:
            if type(tensor) not in PLAIN or tensor.layout is not torch.strided or tensor.is_meta:
                return
            if not tensor.is_cpu and _is_capturing(tensor):
                return
            size = storage(tensor).nbytes()
            if size:
                if len(self._made) >= _PURGE:
                    self._made = {base: memory for base, memory in self._made.items() if not memory.expired()}
                self._made[_base(tensor)] = _Memory(tensor, size)
        except RuntimeError:  # a tensor of functorch, of a mode without memory, or of a device that cannot be asked
            return

    def forget(self, tensors: Iterable[Any]) -> None:
        """Know nothing of the memory of ``tensors`` any more: something writes it that torch does not count."""
        for tensor in tensors if self._made else ():
            if type(tensor) in PLAIN:
                self._made.pop(_base(tensor), None)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Return whether there is memory of ``tensor`` that nobody has written."""
        memory = self._known(tensor)
        return memory is not None and not memory.covers(tensor)

    def is_partial_write(self, api: str, tensor: Any) -> bool:
        """Return whether a call of ``api`` that is about to write ``tensor`` writes a part of known memory."""
        if not self._made or type(tensor) not in PLAIN:
            return False
        try:
            if writes_all(api) and tensor.numel() * tensor.element_size() >= storage(tensor).nbytes():
                return False
            return self._known(tensor) is not None
        except RuntimeError:
            return False

    def note_write(self, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Know what a call of ``api`` has written; ``is_partial_write`` was true before it."""
        try:
            base = _base(args[0])
            memory = self._made.get(base)
            if memory is not None and not memory.note_write(api, args, kwargs):
                self._made.pop(base, None)
        except RuntimeError:
            return

    def _known(self, tensor: torch.Tensor) -> _Memory | None:
        """Return the memory of ``tensor`` if it is known, and forget it if it was written in an unknown way."""
        if not self._made or type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return None
        try:
            base = _base(tensor)
            memory = self._made.get(base)
            if memory is None:
                return None
            if memory.is_that_of(tensor) and memory.unchanged(tensor):
                return memory
        except RuntimeError:
            return None
        self._made.pop(base, None)
        return None


class _Memory:
    """The memory of one storage, as it was when it was made, or when a known part of it was written."""

    __slots__ = ("_sample", "_size", "_storage", "_version", "_written")

    def __init__(self, tensor: torch.Tensor, size: int) -> None:
        self._storage = StorageWeakRef(storage(tensor))
        self._version = tensor._version
        self._size = size
        self._sample = _sample(tensor, size)
        self._written: WrittenElements | None = None

    def expired(self) -> bool:
        """Return whether the memory is free again."""
        expired: bool = self._storage.expired()
        return expired

    def is_that_of(self, tensor: torch.Tensor) -> bool:
        """Return whether ``tensor`` lies in this memory, which has not been free in between."""
        lies: bool = self._storage.cdata == storage(tensor)._cdata and not self._storage.expired()
        return lies

    def unchanged(self, tensor: torch.Tensor) -> bool:
        """Return whether nothing else has been written."""
        version = tensor._version  # 0 for what counts for itself: ``data`` of a tensor, a view made below autograd
        if version not in (0, self._version) or storage(tensor).nbytes() != self._size:
            return False
        return is_same_sample(_sample(tensor, self._size), self._sample)

    def covers(self, tensor: torch.Tensor) -> bool:
        """Return whether all elements of ``tensor`` are written."""
        if self._written is None:
            return False
        with torch.no_grad(), torch._C._DisableTorchDispatch():
            return self._written.cover(tensor)

    def note_write(self, api: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Know what a call has written; return False where this is not known."""
        tensor = args[0]
        with torch.no_grad(), torch._C._DisableTorchDispatch():
            if self._written is None:
                if self._size // tensor.element_size() > LARGEST:
                    return False
                self._written = WrittenElements(tensor, self._size)
            if not self._written.mark(api, args, kwargs):
                return False
        self._version, self._sample = max(tensor._version, self._version), _sample(tensor, self._size)
        return True


def _base(tensor: torch.Tensor) -> int:
    return address(tensor) - tensor.storage_offset() * tensor.element_size()


def _sample(tensor: torch.Tensor, size: int) -> bytes | torch.Tensor:
    """Return some bytes of the memory of ``tensor``, spread over all of it."""
    if not tensor.is_cpu:
        return device_sample(tensor, size)
    return bytes((ctypes.c_char * size).from_address(_base(tensor))[:: _step(size)])  # type: ignore[arg-type]


def device_sample(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return some bytes of the memory of ``tensor``, ``size`` bytes long, as a tensor on its device: the host does not
    wait. No mode of the user sees it.
    """
    with torch.no_grad(), torch._C._DisableTorchDispatch():
        whole = _empty(0, dtype=torch.uint8, device=tensor.device).set_(storage(tensor))
        return whole.as_strided((size // _step(size),), (_step(size),)).clone()


def is_same_sample(sample: bytes | torch.Tensor, earlier: bytes | torch.Tensor) -> bool:
    """Return whether two samples of one memory have the same bytes. The host waits for samples on a device."""
    if isinstance(sample, bytes) or isinstance(earlier, bytes):
        return sample is earlier or sample == earlier
    with torch._C._DisableTorchDispatch():
        return torch.equal(sample, earlier)


def _step(size: int) -> int:
    return max(size // _SAMPLES, 1)


def _is_capturing(tensor: torch.Tensor) -> bool:
    """Return whether the device records a graph, to which nothing may be added."""
    module = getattr(torch, tensor.device.type, None)
    capturing = getattr(module, "is_current_stream_capturing", None)
    return capturing is not None and capturing()


def read_arguments(
    api: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments of a call of ``api`` with a ``NotRead`` in place of every tensor that it does not read."""
    if kwargs.get("out") is not None:
        kwargs = {**kwargs, "out": _not_read(kwargs["out"])}
    beta = kwargs.get("beta")
    if api in _OPTIONAL and type(beta) in (int, float, bool) and beta == 0:
        if args:
            args = (_not_read(args[0]), *args[1:])
        elif "input" in kwargs:
            kwargs = {**kwargs, "input": _not_read(kwargs["input"])}
    return args, kwargs


def _not_read(value: Any) -> Any:
    if type(value) in (tuple, list):
        return [_not_read(part) for part in value]
    if not isinstance(value, torch.Tensor):
        return value
    plain = _empty(value.shape, dtype=value.dtype, device="meta")
    return torch.Tensor._make_subclass(NotRead, plain, value.requires_grad)
