"""Facts, statistics, checksums and files of ``torch.Tensor``.

On the CPU one pass of the compiled kernel gives all four statistics; without the kernel, and on every other device,
torch's own reductions do (see ``reductions``), and devices hand their numbers over in one copy per ``settle``. The
functions used here are the unwrapped ones of ``torch._C``: measuring a call must not look like a call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from msprobe.adapters.pytorch.reductions import DeferredStatistics
from msprobe.adapters.pytorch.sharding import is_sharded, sharding
from msprobe.adapters.pytorch.tensor_saver import TensorSaver
from msprobe.core.tensors.checksum import crc32, xor
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.native import fused

_NAMES = {
    "FakeTensor": "torch._subclasses.fake_tensor.FakeTensor",
    "DTensor": "torch.distributed.tensor.DTensor",
    "AsyncCollectiveTensor": "torch.distributed._functional_collectives.AsyncCollectiveTensor",
    "NestedTensor": "torch.nested._internal.nested_tensor.NestedTensor",
}
_LOWEST = 1 << 40
"""Addresses below are looked at twice: real ones lie above (with ASLR), offsets into nothing lie below."""
_AsItIs = torch._C.DisableTorchFunctionSubclass
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_QUANTIZED = {kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and str(kind)[:7] == "torch.q"}
_DTYPES = {
    dtype: (str(dtype), neutral.code)
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and (neutral := find_dtype(str(dtype))) is not None
}


class TorchTensorOps:
    """Implements ``TensorOps`` for PyTorch.

    Args:
        precision: ``low`` rounds Mean and Norm to the tensor's own dtype, ``high`` keeps float32 or better.
        native: use the compiled kernel where it exists; False measures with torch alone.
    """

    suffix = ".pt"

    def __init__(self, precision: str = "low", native: bool = True) -> None:
        self._high = precision == "high"
        self._summary = fused.summary if fused is not None and native else None
        self._deferred = DeferredStatistics(self._high)
        self._saver = TensorSaver(native)

    def describe(self, tensor: torch.Tensor, statistics: bool) -> dict[str, Any]:
        if type(tensor) not in _PLAIN or (known := _DTYPES.get(tensor.dtype)) is None:
            return self._describe_other(tensor, statistics)
        dtype, code = known
        try:
            node: dict[str, Any] = {"type": "torch.Tensor", "dtype": dtype, "shape": tuple(tensor.shape)}
            if statistics:
                if self._summary is None or not tensor.is_cpu or not tensor.is_contiguous() or tensor.is_neg():
                    return self._describe_other(tensor, True)
                pointer = tensor.data_ptr()
                if pointer < _LOWEST and not _backed(tensor):
                    return self._describe_other(tensor, True)
                values = self._summary(pointer, tensor.numel(), code, self._high)
                node["Max"], node["Min"], node["Mean"], node["Norm"] = values
        except (RuntimeError, ValueError):  # sparse, nested; no memory (meta, functorch); no code for the dtype
            return self._describe_other(tensor, statistics)
        node["requires_grad"] = tensor.requires_grad
        return node

    @property
    def outstanding(self) -> bool:
        return self._deferred.outstanding

    def settle(self) -> None:
        self._deferred.settle()

    def checksum(self, tensor: torch.Tensor, kind: str) -> str | None:
        plain = _with_memory(tensor)
        if plain is None:
            return None
        if plain.numel() == 0:
            return "00000000" if kind == "crc32" else None
        data = plain.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return crc32(data) if kind == "crc32" else xor(data)

    def snapshot(self, tensor: torch.Tensor) -> tuple[Callable[[], torch.Tensor], int] | None:
        plain = _with_memory(tensor)
        if plain is None:
            return None
        size = plain.numel() * plain.element_size()
        with torch.no_grad():
            if plain.is_cpu:
                copy = torch.empty_like(plain, memory_format=torch.contiguous_format).copy_(plain)
                return (lambda: copy), size
            return _host_copy(plain), size

    def save(self, tensor: torch.Tensor, path: Path) -> bool:
        plain = _with_memory(tensor)
        if plain is None:
            return False
        try:
            self._saver.save(plain, path)
        except KeyError:  # torch cannot save this dtype (int4 and the like)
            path.unlink(missing_ok=True)
            return False
        return True

    def _describe_other(self, tensor: torch.Tensor, statistics: bool) -> dict[str, Any]:
        """The node of anything but a plain contiguous CPU tensor. What a subclass overrides is passed by."""
        with _AsItIs():
            return self._facts(tensor, statistics)

    def _facts(self, tensor: torch.Tensor, statistics: bool) -> dict[str, Any]:
        kind = _NAMES.get(type(tensor).__name__, "torch.Tensor")
        node: dict[str, Any] = {"type": kind, "dtype": str(tensor.dtype), "shape": _shape(tensor)}
        if statistics:
            node["Max"] = node["Min"] = node["Mean"] = node["Norm"] = None
            self._measure(tensor, node)
        node["requires_grad"] = tensor.requires_grad
        if is_sharded(tensor):
            node.update(sharding(tensor))
        return node

    def _measure(self, tensor: torch.Tensor, node: dict[str, Any]) -> None:
        plain = _with_memory(tensor)
        if plain is None or plain.numel() == 0:
            return
        known = _DTYPES.get(plain.dtype)
        if plain.is_cpu and self._summary is not None and known is not None and known[1] >= 0:
            dense = _dense(plain)
            values = self._summary(dense.data_ptr(), dense.numel(), known[1], self._high)
            node["Max"], node["Min"], node["Mean"], node["Norm"] = values
            return
        try:
            self._deferred.add(plain, node)
            if plain.is_cpu:
                self._deferred.settle()
        except RuntimeError:  # torch has no arithmetic for this dtype (bits8, int4, float4): its facts are recorded
            return


def _shape(tensor: torch.Tensor) -> list[int | None]:
    """The lengths of the dimensions; None for one that differs between the parts of a nested tensor.

    Empty when it is not known yet (lazy modules).
    """
    try:
        return list(tensor.shape)
    except RuntimeError:
        return [_length(tensor, dim) for dim in range(tensor.dim())] if tensor.is_nested else []


def _length(tensor: torch.Tensor, dim: int) -> int | None:
    try:
        return tensor.size(dim)
    except RuntimeError:
        return None


def _with_memory(tensor: torch.Tensor) -> torch.Tensor | None:
    """The values of ``tensor`` as a detached strided tensor, or None when it has none (meta, fake, inside vmap)."""
    if tensor.is_meta or type(tensor).__name__ in ("FakeTensor", "AsyncCollectiveTensor"):
        return None
    if tensor.is_quantized and tensor.dtype not in _QUANTIZED:
        return None  # its bytes under another dtype: torch crashes when asked for the scale that it lacks
    try:
        with torch.no_grad(), _AsItIs():
            plain = _strided(tensor).detach()
        if plain.is_neg() or plain.is_conj():
            plain = plain.resolve_neg().resolve_conj()
        return plain if plain.numel() == 0 or _backed(plain) else None
    except RuntimeError:
        return None


def _backed(tensor: torch.Tensor) -> bool:
    """Whether there is memory behind ``tensor``.

    Sharded training empties the storage of resting parameters; the address of a view in it is then only its offset.
    """
    return bool(tensor.data_ptr()) and tensor.untyped_storage().nbytes() > 0


def _host_copy(plain: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A copy of a device tensor in host memory, made in the order of the device's stream without waiting for it.

    Where the device has no events, the copy is waited for here.
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


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    if hasattr(tensor, "to_local"):
        return tensor.to_local()  # a DTensor: what this process holds of it
    if tensor.is_nested:
        return tensor.values()
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce().values()
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor with the same elements in any order: a transposed tensor needs no copy for that."""
    if tensor.is_contiguous():
        return tensor
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    moved = tensor.permute(order)
    return moved if moved.is_contiguous() else tensor.contiguous()
