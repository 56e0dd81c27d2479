"""Where the values of a tensor lie: whether there is memory to read at all, and a strided view of it."""

from __future__ import annotations

import torch

EXPANDED = 1 << 20
"""Elements from which on an expanded tensor is no longer written out to be measured."""
LOWEST = 1 << 40
"""Addresses below are looked at twice: real ones lie above (with ASLR), offsets into nothing lie below."""
AsItIs = torch._C.DisableTorchFunctionSubclass
PLAIN = (torch.Tensor, torch.nn.Parameter)
_QUANTIZED = {kind for kind in vars(torch).values() if isinstance(kind, torch.dtype) and str(kind)[:7] == "torch.q"}
_detach = torch._C.TensorBase.detach
# Unwrapped, as everything that the tool calls.
address = torch._C.TensorBase.data_ptr
storage = torch._C.TensorBase.untyped_storage


def readable(tensor: torch.Tensor) -> bool:
    """Whether the memory of ``tensor`` holds just its elements in logical order, and can be read here.

    Raises RuntimeError for tensors that have no address (functorch).
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
    """The values of ``tensor`` as a detached strided tensor, or None when it has none (meta, fake, inside vmap) or not
    yet: waiting for communication that the program does not wait for here could stop it for good.
    """
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        return None
    if tensor.is_quantized and tensor.dtype not in _QUANTIZED:
        return None  # its bytes under another dtype: torch crashes when asked for the scale that it lacks
    try:
        if readable(tensor):
            return _detach(tensor)
        with torch.no_grad(), AsItIs():
            arrived = _arrived(_strided(tensor))
            if arrived is None:
                return None
            plain = arrived.detach()
        if plain.is_neg() or plain.is_conj():
            plain = plain.resolve_neg().resolve_conj()
        return plain if plain.numel() == 0 or backed(plain) else None
    except RuntimeError:
        return None


def backed(tensor: torch.Tensor) -> bool:
    """Whether there is memory behind ``tensor``.

    Sharded training empties the storage of resting parameters; the address of a view in it is then only its offset.
    """
    return bool(address(tensor)) and storage(tensor).nbytes() > 0


def _arrived(tensor: torch.Tensor) -> torch.Tensor | None:
    """What an ``AsyncCollectiveTensor`` holds once the program has waited for it; other tensors as they are."""
    if type(tensor).__name__ != "AsyncCollectiveTensor":
        return tensor
    return tensor.elem if tensor.completed else None


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    if hasattr(tensor, "to_local"):
        return tensor.to_local()  # a DTensor: what this process holds of it
    if tensor.is_nested:  # asked for them below autograd, where operators are recorded, torch would never answer
        held = getattr(tensor, "_values", None)
        return held if isinstance(held, torch.Tensor) else tensor.values()
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce().values()
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor with the same elements in any order: a transposed tensor needs no copy for that."""
    if tensor.is_contiguous():
        return tensor
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    moved = tensor.permute(order)
    return moved if moved.is_contiguous() else tensor.contiguous()


def once_each(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The elements of a large expanded tensor without their repetitions, and how often each occurs; others as they are.

    ``expand`` makes a tensor of any size out of one element, without memory for it.
    """
    if tensor.numel() < EXPANDED or 0 not in tensor.stride():
        return tensor, 1
    once = tensor
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0:
            once = once.narrow(dim, 0, 1)
    return once, tensor.numel() // once.numel()
