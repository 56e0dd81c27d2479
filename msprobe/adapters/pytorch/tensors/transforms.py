"""Tensors inside transforms of ``torch.func`` (``vmap``, ``grad``, ``jvp``): wrappers around a tensor with memory.

Below the wrappers lies what the program computes: for ``vmap`` all examples in one tensor. Operations on that tensor
must not reach the transforms, which would wrap their results again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch
from torch._C import _functorch as functorch

_interpreters = functorch.peek_interpreter_stack
_is_wrapped = functorch.is_functorch_wrapped_tensor
_movedim = torch._C.TensorBase.movedim
_keys, _key = torch._C.DispatchKeySet, torch._C.DispatchKey
_TRANSFORMS = _keys(_key.FuncTorchDynamicLayerFrontMode) | _keys(_key.FuncTorchDynamicLayerBackMode)


def in_transform() -> bool:
    """Return whether this thread runs inside a transform."""
    return _interpreters() is not None


def outside_transforms() -> AbstractContextManager[None]:
    """Return a context in which no transform sees operations; wrapped tensors must not be computed with inside."""
    guard: AbstractContextManager[None] = torch._C._ExcludeDispatchKeyGuard(_TRANSFORMS)
    return guard


def below_transforms(tensor: torch.Tensor) -> torch.Tensor:
    """Return what lies below the wrappers, with the axes of ``vmap`` in front, the outermost first; others as they are.

    What ``functionalize`` wraps is returned as it is: its updates are not made yet.
    """
    if not _is_wrapped(tensor) or functorch.is_functionaltensor(tensor):
        return tensor
    with outside_transforms():
        return _below(tensor)[0]


def mapped_axes(tensor: torch.Tensor) -> int:
    """Return how many axes of ``vmap`` the tensor below the wrappers has."""
    return sum(map(functorch.is_batchedtensor, _levels(tensor)))


def needs_gradient(tensor: torch.Tensor) -> bool:
    """Return whether a transform around, or autograd outside of them, differentiates by what a tensor is made of."""
    return any(level.requires_grad for level in _levels(tensor))


def _levels(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a tensor and what it wraps, from the outside to the inside."""
    yield tensor
    while _is_wrapped(tensor):
        tensor = functorch.get_unwrapped(tensor)
        yield tensor


def _below(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return what lies below the wrappers, and how many axes of ``vmap`` it has in front."""
    if not _is_wrapped(tensor) or functorch.is_functionaltensor(tensor):
        return tensor, 0
    inner, axes = _below(functorch.get_unwrapped(tensor))
    if not functorch.is_batchedtensor(tensor):
        return inner, axes
    axis = functorch.maybe_get_bdim(tensor)
    return (_movedim(inner, axis + axes, axes) if axis else inner), axes + 1
