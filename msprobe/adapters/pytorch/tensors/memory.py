"""The memory of a tensor: whether there is any to read, and a strided view of it."""

from __future__ import annotations

import torch

from msprobe.adapters.pytorch.tensors.transforms import below_transforms
from msprobe.core.interruption import let_through

EXPANDED = 1 << 20
"""Elements from which on an expanded tensor is not copied to be measured."""
LOWEST = 1 << 40
"""Addresses below are checked again: real ones lie above (with ASLR); below lie offsets into an empty storage."""
WithoutSubclass = torch._C.DisableTorchFunctionSubclass
WithoutAutograd = torch._C._AutoDispatchBelowAutograd
"""``torch.no_grad`` in C: an exception of a signal handler cannot come between its lines and leave autograd off."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
_QUANTIZED = {kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and str(kind)[:7] == "torch.q"}
_detach = torch._C.TensorBase.detach
# Unwrapped, as everything that the tool calls.
address = torch._C.TensorBase.data_ptr
storage = torch._C.TensorBase.untyped_storage


def readable(tensor: torch.Tensor) -> bool:
    """Return whether the memory of ``tensor`` holds just its elements in logical order, and can be read here.

    Raises:
        RuntimeError: the tensor has no address (functorch).
    """
    return (
        type(tensor) in PLAIN
        and tensor.layout is torch.strided
        and tensor.is_cpu
        and not (tensor.is_quantized or tensor.is_nested)
        and tensor.is_contiguous()
        and not (tensor.is_neg() or tensor.is_conj())
        and (address(tensor) >= LOWEST or backed(tensor))
    )


def with_memory(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the values of ``tensor`` as a detached strided tensor.

    The result is None when it has no values (meta, fake) or has none yet: waiting here for communication
    that the program does not wait for could block it for ever.
    """
    tensor = below_transforms(tensor)
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        return None
    if tensor.is_quantized and tensor.dtype not in _QUANTIZED:
        return None  # its bytes under another dtype: torch crashes when asked for the scale that it lacks
    try:
        if readable(tensor):
            return _detach(tensor)
        with WithoutAutograd(), WithoutSubclass():
            complete = _completed(_strided(tensor))
            if complete is None:
                return None
            plain = complete.detach()
        if plain.is_neg() or plain.is_conj():
            plain = plain.resolve_neg().resolve_conj()
        return plain if plain.numel() == 0 or backed(plain) else None
    except RuntimeError as error:
        let_through(error)
        return None


def backed(tensor: torch.Tensor) -> bool:
    """Return whether ``tensor`` has memory.

    Sharded training empties the storage of parameters that are not in use; the address of a view is then its offset.
    """
    return bool(address(tensor)) and storage(tensor).nbytes() > 0


def _completed(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor in an ``AsyncCollectiveTensor``, or None before the program has waited; others as they are."""
    if type(tensor).__name__ != "AsyncCollectiveTensor":
        return tensor
    return tensor.elem if tensor.completed else None


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    if hasattr(tensor, "to_local"):
        return tensor.to_local()  # a DTensor: what this process holds of it
    if tensor.is_nested:  # asked for them below autograd, where operators are recorded, torch would never answer
        values = getattr(tensor, "_values", None)
        return values if isinstance(values, torch.Tensor) else tensor.values()
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce().values()
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor with the same elements in any order; a transposed tensor is not copied."""
    if tensor.is_contiguous():
        return tensor
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    moved = tensor.permute(order)
    return moved if moved.is_contiguous() else tensor.contiguous()


def without_repeats(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the elements of a large expanded tensor once each, and how often they occur; others as they are.

    ``expand`` makes a tensor of any size out of one element, without memory for it.
    """
    if tensor.numel() < EXPANDED or 0 not in tensor.stride():
        return tensor, 1
    distinct = tensor
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0:
            distinct = distinct.narrow(dim, 0, 1)
    return distinct, tensor.numel() // distinct.numel()
