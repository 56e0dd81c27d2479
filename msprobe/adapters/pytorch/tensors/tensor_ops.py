"""Facts, statistics, checksums and files of ``torch.Tensor``.

On the CPU one pass of the compiled kernel computes all statistics and the CRC-32; without the kernel torch's own
reductions do (``host_statistics``). The numbers of devices are copied together by ``settle`` (``DeferredStatistics``).
Functions are the unwrapped ones of ``torch._C``, because measuring a call must not be recorded as a call.

Nearly all tensors of a training on the CPU are described by ``DlpackDescriber``, which gets facts and statistics in one
call through DLPack's C exchange API (since torch 2.10). Reading each fact from torch by itself takes longer than the
kernel takes to measure a small tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from msprobe.adapters.pytorch.tensors.in_flight import TensorsInFlight
from msprobe.adapters.pytorch.tensors.memory import (
    LOWEST,
    PLAIN,
    WithoutAutograd,
    WithoutSubclass,
    address,
    backed,
    dense,
    readable,
    with_memory,
    without_repeats,
)
from msprobe.adapters.pytorch.tensors.reductions import DeferredStatistics, Projector, host_statistics
from msprobe.adapters.pytorch.tensors.saver import TensorSaver
from msprobe.adapters.pytorch.tensors.sharding import is_sharded, sharding
from msprobe.adapters.pytorch.tensors.storages import note_memory
from msprobe.adapters.pytorch.tensors.transforms import below_transforms, mapped_axes, needs_gradient
from msprobe.adapters.pytorch.tensors.unwritten import NotRead, TorchUnwrittenMemory, is_capturing
from msprobe.core.dump.record.declared_shards import USED, declared
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger
from msprobe.core.store.record_walk import NO_DATA, NOT_READ, UNINITIALISED, VMAP_AXES, has_no_values
from msprobe.core.tensors.checksums import crc32, format_crc32, format_xor, xor
from msprobe.core.tensors.dtypes import ALL_DTYPES, DType, find_dtype
from msprobe.core.tensors.projection import set_measured
from msprobe.core.tensors.statistics import NO_STATS, RawStats, finish, repeated, set_statistics
from msprobe.native import fused, measuring
from msprobe.native.loader import Kernel, Summary

_CAPSULE: Any = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
_DTYPE_NAMES = {dtype.code: f"torch.{dtype.name}" for dtype in ALL_DTYPES}
_BYTES = {dtype.code: getattr(torch, dtype.name) for dtype in ALL_DTYPES if dtype.name in ("int8", "uint8")}
"""Integers of fewer bits (torch.int4) are reported as integers of eight bits."""

_TYPE_NAMES = {
    "FakeTensor": "torch._subclasses.fake_tensor.FakeTensor",
    "DTensor": "torch.distributed.tensor.DTensor",
    "AsyncCollectiveTensor": "torch.distributed._functional_collectives.AsyncCollectiveTensor",
    "NestedTensor": "torch.nested._internal.nested_tensor.NestedTensor",
}
_DTYPES: dict[torch.dtype, tuple[str, DType]] = {
    dtype: (str(dtype), neutral)
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and (neutral := find_dtype(str(dtype))) is not None
}
_detach = torch._C.TensorBase.detach
F = TypeVar("F", bound=Callable[..., Any])


def without_overrides(method: F) -> F:
    """Decorate a method whose first argument is a tensor: a subclass does not see what is asked of the tensor."""

    @functools.wraps(method)
    def measured(self: Any, tensor: torch.Tensor, *args: Any) -> Any:
        if type(tensor) in PLAIN:
            return method(self, tensor, *args)
        with WithoutSubclass():
            return method(self, tensor, *args)

    return measured  # type: ignore[return-value]


class TorchTensorOps:
    """Implements ``TensorOps`` for PyTorch.

    Args:
        precision: ``low`` rounds Mean and Norm to the tensor's own dtype, ``high`` keeps float32 or better.
        native: use the compiled kernel where it exists; False measures with torch alone.
        unwritten: knows the memory that nobody has written, whose content is no value.
        arrivals: knows the tensors that are still being received.

    Attributes:
        deferred: the statistics that a device is computing.
    """

    suffix = ".pt"
    note_memory = staticmethod(note_memory)
    below_transforms = staticmethod(below_transforms)

    def __init__(
        self,
        precision: str = "low",
        native: bool = True,
        unwritten: TorchUnwrittenMemory | None = None,
        arrivals: TensorsInFlight | None = None,
    ) -> None:
        self.arrivals = arrivals
        self._unwritten = unwritten or TorchUnwrittenMemory()
        self._high = precision == "high"
        self._kernel = fused if native else None
        self._dlpack = DlpackDescriber.with_kernel(self._high) if native else None
        self._summary = measuring.summary if measuring is not None and native else None
        fast_crc = measuring is not None and native and bool(measuring.FAST_CRC32)  # else zlib's is the faster one
        self._summary_crc32 = measuring.summary_crc32 if measuring is not None and fast_crc else None
        self.deferred = DeferredStatistics(self._high)
        self._projector = Projector(self._kernel, self.deferred)
        self._saver = TensorSaver(native)

    def describe(self, tensor: torch.Tensor, statistics: bool, projection: bool = False) -> dict[str, Any]:
        if self._unwritten.holds(tensor):
            return self._without_values(tensor, statistics)
        if statistics and self._dlpack is not None:
            node = self._dlpack.describe(tensor, projection)
            if node is not None:
                return declared(tensor, node) if USED and type(tensor) in USED else node
        if type(tensor) not in PLAIN or (entry := _DTYPES.get(tensor.dtype)) is None:
            return self._describe_other(tensor, statistics, projection)
        dtype, neutral = entry
        try:
            node = {"type": "torch.Tensor", "dtype": dtype, "shape": tuple(tensor.shape)}
            if statistics:
                if not tensor.is_cpu or not tensor.is_contiguous() or tensor.is_neg():
                    return self._describe_other(tensor, True, projection)
                if address(tensor) < LOWEST and not backed(tensor):
                    return self._describe_other(tensor, True, projection)
                set_measured(node, self._values(tensor, neutral, self._high, projection))
        except (RuntimeError, ValueError) as error:  # sparse, nested; no memory (meta, functorch); no code for a dtype
            let_through(error)
            return self._describe_other(tensor, statistics, projection)
        node["requires_grad"] = tensor.requires_grad
        return declared(tensor, node) if USED and type(tensor) in USED else node

    @without_overrides
    def describe_with_checksum(
        self, tensor: torch.Tensor, statistics: bool, kind: str, projection: bool = False
    ) -> dict[str, Any]:
        if statistics and kind == "crc32" and self._summary_crc32 is not None:
            if self._unwritten.holds(tensor):
                return {**self._without_values(tensor, True), "md5": None}
            node = self._in_one_pass(tensor, self._summary_crc32, projection)
            if node is not None:
                return node
        node = self.describe(tensor, statistics, projection)
        node["md5"] = self.checksum(tensor, kind)
        if node["md5"] is None and not has_no_values(node) and with_memory(tensor) is None:
            node[NO_DATA] = True
        return node

    @property
    def outstanding(self) -> bool:
        return self.deferred.outstanding

    def settle(self) -> None:
        self.deferred.settle()

    @without_overrides
    def project(self, tensor: torch.Tensor, node: dict[str, Any]) -> None:
        if self._unwritten.holds(tensor) or is_capturing(tensor):
            return
        with WithoutSubclass():
            self._projector.project(tensor, node)

    @without_overrides
    def checksum(self, tensor: torch.Tensor, kind: str) -> str | None:
        plain = self._with_values(tensor)
        if plain is None:
            return None
        if plain.numel() == 0:
            return "00000000" if kind == "crc32" else None
        once, repeats = without_repeats(plain)
        if repeats > 1:
            data = _as_words(once.cpu().expand(plain.shape)).numpy()
            return crc32(data) if kind == "crc32" else xor(data)
        whole = _as_words(plain.cpu()).contiguous()  # torch copies integers of every width
        size = whole.numel() * whole.element_size()
        if kind == "crc32" and self._kernel is not None and self._summary_crc32 is not None:
            return format_crc32(self._kernel.crc32(address(whole), size))
        if kind == "xor" and self._kernel is not None:
            return format_xor(self._kernel.xor64(address(whole), size))
        flat = whole.as_strided((whole.numel(),), (1,))  # a single element may have kept any stride
        data = flat.view(torch.uint8).numpy()
        return crc32(data) if kind == "crc32" else xor(data)

    @without_overrides
    def snapshot(self, tensor: torch.Tensor) -> tuple[Callable[[], torch.Tensor], int] | None:
        plain = self._with_values(tensor)
        if plain is None:
            return None
        once, repeats = without_repeats(plain)
        size = once.numel() * once.element_size()
        with WithoutAutograd():
            if plain.is_cpu:
                words = once if once.dtype in _DTYPES else _as_words(once)  # torch cannot copy int4 and the like
                copy = torch.empty_like(words, memory_format=torch.contiguous_format).copy_(words).view(once.dtype)
                copy = copy.expand(plain.shape) if repeats > 1 else copy
                return (lambda: copy), size
            if repeats > 1:
                host = _host_copy(once)
                return (lambda: host().expand(plain.shape)), size
            return _host_copy(plain), size

    @without_overrides
    def save(self, tensor: torch.Tensor, path: str | Path) -> bool:
        plain = self._with_values(tensor)
        if plain is None:
            return False
        try:
            self._saver.save(plain, path)
        except (KeyError, NotImplementedError) as error:  # torch cannot save or copy this dtype (int4 and the like)
            let_through(error)
            Path(path).unlink(missing_ok=True)
            return False
        return True

    def _describe_other(self, tensor: torch.Tensor, statistics: bool, projection: bool) -> dict[str, Any]:
        """Return the record of anything but a plain contiguous CPU tensor, without calling overrides of subclasses."""
        with WithoutSubclass():
            return self._facts(tensor, statistics, projection)

    def _with_values(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the tensor as one that can be read; None where it has no memory, or nobody has written that."""
        inner = below_transforms(tensor)
        return None if self._unwritten.holds(inner) else self._readable(inner)

    def _readable(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the tensor as one that can be read now; None where it has no memory, or a graph is being captured.

        To read a value then would end the capture of the program.
        """
        if not is_capturing(tensor):
            return with_memory(tensor)
        if first_time("values during a capture"):
            logger.warning(
                "a graph of the device is being captured, in which nothing has a value yet: its calls are recorded "
                "without values; use AclGraphDumper, which records what captured graphs compute"
            )
        return None

    def _without_values(self, tensor: torch.Tensor, statistics: bool) -> dict[str, Any]:
        """Return the record of a tensor that nobody has written."""
        node: dict[str, Any] = {"type": "torch.Tensor", "dtype": str(tensor.dtype), "shape": tuple(tensor.shape)}
        if statistics:
            set_statistics(node, NO_STATS)
        node["requires_grad"] = tensor.requires_grad
        node[UNINITIALISED] = True
        return node

    def _facts(self, tensor: torch.Tensor, statistics: bool, projection: bool) -> dict[str, Any]:
        inner = below_transforms(tensor)
        if inner is not tensor:
            below = self.describe(inner, statistics, projection)
            return {**below, "requires_grad": needs_gradient(tensor), VMAP_AXES: mapped_axes(tensor)}
        kind = _TYPE_NAMES.get(type(tensor).__name__, "torch.Tensor")
        node: dict[str, Any] = {"type": kind, "dtype": str(tensor.dtype), "shape": _shape(tensor)}
        plain = self._readable(tensor)
        if statistics:
            set_statistics(node, NO_STATS)
            if plain is not None and plain.numel():
                self._measure(plain, node, projection)
        node["requires_grad"] = tensor.requires_grad
        if type(tensor) is NotRead:
            node[NOT_READ] = True
        elif plain is None:
            node[NO_DATA] = True
        if tensor.layout is not torch.strided:
            node["layout"] = str(tensor.layout).removeprefix("torch.")
        if is_sharded(tensor):
            node.update(sharding(tensor))
        return declared(tensor, node) if USED and type(tensor) in USED else node

    def _measure(self, plain: torch.Tensor, node: dict[str, Any], projection: bool) -> None:
        """Write the statistics of a strided tensor with elements into its record."""
        entry = _DTYPES.get(plain.dtype)
        plain, repeats = without_repeats(plain)
        try:
            if plain.is_cpu and entry is not None:
                if repeats > 1:
                    set_statistics(node, self._repeated(self._values(dense(plain), entry[1], True), entry[1], repeats))
                else:
                    ordered = plain.contiguous() if projection and self._summary is not None else dense(plain)
                    set_measured(node, self._values(ordered, entry[1], self._high, projection))
                return
            self.deferred.add(plain, node, repeats)
            if plain.is_cpu:
                self.deferred.settle()
        except RuntimeError as error:  # no arithmetic for this dtype (bits8, int4, float4): its facts are recorded
            let_through(error)
            return

    def _values(self, plain: torch.Tensor, dtype: DType, high: bool, projection: bool = False) -> Summary:
        """Return the statistics of a dense CPU tensor, and the projection of a contiguous one where the kernel can."""
        if self._summary is None or dtype.code < 0:
            return self._by_torch(plain, dtype, high)
        return self._summary(address(plain), plain.numel(), dtype.code, high, projection)

    def _repeated(self, values: Summary, dtype: DType, repeats: int) -> Summary:
        """Return the statistics of a tensor in which each element occurs ``repeats`` times."""
        return finish(repeated(RawStats._make(values), repeats), dtype, "high" if self._high else "low")

    def _by_torch(self, tensor: torch.Tensor, dtype: DType, high: bool) -> Summary:
        """Return the statistics of a dense CPU tensor by torch's own reductions, as ``summary`` returns them."""
        if tensor.numel() == 0:
            return NO_STATS
        return host_statistics(_detach(tensor), dtype, "high" if high else "low")

    def _in_one_pass(
        self, tensor: torch.Tensor, summary: Callable[..., Any], projection: bool
    ) -> dict[str, Any] | None:
        """Return the record with statistics and CRC-32 from one pass over the memory; None when it is not possible."""
        try:
            if (entry := _DTYPES.get(tensor.dtype)) is None or not readable(tensor):
                return None
            values = summary(address(tensor), tensor.numel(), entry[1].code, self._high, projection)
        except (RuntimeError, ValueError) as error:
            let_through(error)
            return None
        node: dict[str, Any] = {"type": "torch.Tensor", "dtype": entry[0], "shape": tuple(tensor.shape)}
        *statistics, crc = values
        set_measured(node, statistics)
        node["requires_grad"] = tensor.requires_grad
        node["md5"] = format_crc32(crc)
        return declared(tensor, node) if USED and type(tensor) in USED else node


class DlpackDescriber:
    """Describes tensors with the compiled kernel.

    Args:
        high: Mean and Norm keep float32 or better.
    """

    def __init__(self, kernel: Kernel, high: bool) -> None:
        self._tensor_summary = kernel.tensor_summary
        self._high = high

    @classmethod
    def with_kernel(cls, high: bool) -> DlpackDescriber | None:
        """Return a describer; None without a kernel that measures all statistics, or without this API of torch."""
        return None if measuring is None or _CAPSULE is None else cls(measuring, high)

    def describe(self, tensor: torch.Tensor, projection: bool = False) -> dict[str, Any] | None:
        """Return the record of a tensor with statistics; None for a tensor that this API does not describe."""
        if type(tensor) not in PLAIN or tensor.is_neg():
            return None
        facts = self._tensor_summary(_CAPSULE, tensor, self._high, projection)
        if facts is None or (facts[0] in _BYTES and tensor.dtype is not _BYTES[facts[0]]):
            return None
        code, shape, values = facts
        node: dict[str, Any] = {"type": "torch.Tensor", "dtype": _DTYPE_NAMES[code], "shape": shape}
        set_measured(node, values)
        node["requires_grad"] = tensor.requires_grad
        return node


def _shape(tensor: torch.Tensor) -> tuple[int | None, ...]:
    """Return the lengths of the dimensions; None for a dimension whose length differs between parts of a nested tensor.

    It is empty when the tensor has no shape yet (lazy modules).
    """
    try:
        return tuple(tensor.shape)
    except RuntimeError as error:
        let_through(error)
        return tuple(_length(tensor, dim) for dim in range(tensor.dim())) if tensor.is_nested else ()


def _length(tensor: torch.Tensor, dim: int) -> int | None:
    try:
        return tensor.size(dim)
    except RuntimeError as error:
        let_through(error)
        return None


def _as_words(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of a CPU tensor of any strides as integers with the bytes of its elements."""
    word = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.element_size())
    return tensor if word is None else tensor.view(word)


def _host_copy(plain: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Start to copy a device tensor to host memory, in the order of its stream; return a function that waits for it.

    When the device has no events, this function itself waits for the copy.
    """
    module: Any = getattr(torch, plain.device.type, None)
    if not hasattr(module, "Event"):
        copy = plain.cpu().contiguous()
        return lambda: copy
    host = torch.empty(plain.shape, dtype=plain.dtype, pin_memory=True)
    host.copy_(plain, non_blocking=True)
    event = module.Event()
    event.record()

    def complete() -> torch.Tensor:
        event.synchronize()
        return host

    return complete
