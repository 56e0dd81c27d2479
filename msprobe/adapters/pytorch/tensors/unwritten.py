"""Memory of PyTorch that nobody has written, and arguments that an operation does not read: no values to record.

``read_arguments`` replaces the arguments that an operation is given without reading them by tensors without values:
``out``, and the first operand of ``addmm`` and the like with ``beta=0``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from msprobe.adapters.pytorch.tensors.memory import PLAIN, WithoutAutograd, address, storage
from msprobe.adapters.pytorch.tensors.partial_writes import WrittenElements
from msprobe.adapters.pytorch.tensors.transforms import below_transforms
from msprobe.core.capture.partial_writes import LARGEST
from msprobe.core.capture.unwritten import Lifetime, UnwrittenMemory, host_sample, sample_step

MAKERS: Mapping[Any, tuple[str, ...]] = {
    torch: ("empty", "empty_like", "empty_strided", "empty_permuted"),
    torch.Tensor: ("new", "new_empty", "new_empty_strided"),
}
"""The functions that return memory which nobody has written, by owner; ``new`` does where it is given sizes alone."""
GROWING = frozenset({"resize_", "resize_as_"})
"""Functions whose result is such memory where the tensor had none before."""
COPIERS: Mapping[Any, tuple[str, ...]] = {
    torch.Tensor: ("__deepcopy__", "share_memory_"),
    torch.nn.Parameter: ("__deepcopy__",),
}
"""Functions that copy memory as it is, or move it, by owner; they are not recorded."""

_OPTIONAL = frozenset({
    "addbmm", "addbmm_", "addmm", "addmm_", "addmv", "addmv_", "addr", "addr_", "baddbmm", "baddbmm_", "sspaddmm",
})  # fmt: skip
"""Functions that do not read their first operand where ``beta`` is 0."""
_empty = torch._C._VariableFunctions.empty


class NotRead(torch.Tensor):
    """Stands for a tensor that an operation is given and does not read: shape and dtype, and no values."""


class TorchUnwrittenMemory(UnwrittenMemory):
    """Implements ``UnwrittenMemory`` for PyTorch, whose version of a tensor counts the writes by its operations.

    On a device the samples stay there; the host waits for them only where such memory is measured or a part of it is
    written.
    """

    def add(self, tensor: Any) -> None:
        super().add(below_transforms(tensor) if self.is_plain(tensor) else tensor)

    def is_plain(self, tensor: Any) -> bool:
        return type(tensor) in PLAIN and tensor.layout is torch.strided

    def is_sampled(self, tensor: Any) -> bool:
        return not tensor.is_meta and (tensor.is_cpu or not is_capturing(tensor))

    def base(self, tensor: Any) -> int:
        return address(tensor) - int(tensor.storage_offset()) * int(tensor.element_size())

    def size(self, tensor: Any) -> int:
        return storage(tensor).nbytes()

    def element_size(self, tensor: Any) -> int:
        return int(tensor.element_size())

    def elements(self, tensor: Any) -> int:
        return int(tensor.numel())

    def writes(self, tensor: Any) -> int:
        return int(tensor._version)  # 0 for ``data`` of a tensor, and a view made below autograd

    def lifetime(self, tensor: Any) -> Lifetime:
        return _StorageLifetime(tensor)

    def sample(self, tensor: Any, size: int) -> bytes | torch.Tensor:
        if tensor.is_cpu:
            return host_sample(self.base(tensor), size)
        if is_capturing(tensor):
            raise RuntimeError("to compare two samples the host would wait, which ends the capture of a graph")
        return device_sample(tensor, size)

    def is_same_sample(self, sample: bytes | torch.Tensor, earlier: bytes | torch.Tensor) -> bool:
        return is_same_sample(sample, earlier)

    def written_elements(self, tensor: Any, size: int) -> WrittenElements | None:
        return None if size // tensor.element_size() > LARGEST else WrittenElements(tensor, size)


class _StorageLifetime:
    """Knows how long the memory of a storage is in use."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._storage = StorageWeakRef(storage(tensor))
        self._address = storage(tensor).data_ptr()

    def expired(self) -> bool:
        return bool(self._storage.expired())

    def is_that_of(self, tensor: torch.Tensor) -> bool:
        if self._storage.expired():
            return False
        if self._storage.cdata == storage(tensor)._cdata:
            return True
        made = torch.UntypedStorage._new_with_weak_ptr(self._storage.cdata)  # ``tensor`` is another one of this memory,
        return made is not None and made.data_ptr() == self._address  # as of ``from_numpy``


def device_sample(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return some bytes of the memory of ``tensor``, ``size`` bytes long, as a tensor on its device: the host does not
    wait. No mode of the user sees it.
    """
    with WithoutAutograd(), torch._C._DisableTorchDispatch():
        whole = _empty(0, dtype=torch.uint8, device=tensor.device).set_(storage(tensor))
        return whole.as_strided((size // sample_step(size),), (sample_step(size),)).clone()


def is_same_sample(sample: bytes | torch.Tensor, earlier: bytes | torch.Tensor) -> bool:
    """Return whether two samples of one memory have the same bytes. The host waits for samples on a device."""
    if isinstance(sample, bytes) or isinstance(earlier, bytes):
        return sample is earlier or sample == earlier
    with torch._C._DisableTorchDispatch():
        return torch.equal(sample, earlier)


def is_capturing(tensor: torch.Tensor) -> bool:
    """Return whether the device of a tensor captures a graph on the present stream: no value can be read then."""
    return captures_graph(tensor.device.type)


def captures_graph(device: str) -> bool:
    """Return whether a device of this type captures a graph on the present stream; False where it has no graphs."""
    capturing = getattr(getattr(torch, device, None), "is_current_stream_capturing", None)
    return capturing is not None and bool(capturing())


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
