"""Calls of a running program: their arguments copied, so that they can be run again.

What a program owns beside tensors (a generator, a cache, a module) is never given to a second call: a call with such an
argument cannot be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from msprobe.adapters.pytorch.replay.program_state import ProgramState
from msprobe.adapters.pytorch.replay.runner import (
    TorchReplayer,
    forked_generators,
    held,
    make_replayer,
    results_of,
    tensors_of,
)
from msprobe.core.backend.replaying import (
    Argument,
    CannotReplayError,
    Constant,
    Execution,
    HeldTensor,
    PreparedCall,
    Replayer,
)
from msprobe.core.interruption import let_through

_HALF = (torch.float16, torch.bfloat16)


class TorchLiveFunctions:
    """Implements ``LiveFunctions`` for PyTorch."""

    def prepare(self, prefix: str, api: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PreparedCall:
        return prepared_call(prefix, api, args, kwargs)

    def device(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return str(_device(args, kwargs))

    def signature(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        leaves = tree_leaves((args, dict(kwargs)))
        return tuple((each.dtype, each.shape) for each in leaves if isinstance(each, torch.Tensor))

    def operators(self) -> Replayer:
        return make_replayer()

    def held(self, tensor: Any) -> HeldTensor:
        return _held_copy(tensor)

    def execution(self, result: Any) -> Execution:
        return Execution([_held_copy(each) if isinstance(each, torch.Tensor) else each for each in results_of(result)])

    def arguments(self, call: PreparedCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tensors_of(call, torch.device("cpu"))

    def replayer(self, function: Callable[..., Any]) -> Replayer:
        return TorchReplayer(_OneFunction(function))

    def program_state(self) -> Any:
        return ProgramState.now()

    def has_drawn(self, state: Any) -> bool:
        return not ProgramState.now().has_same_numbers(state)

    def improved(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], to_cpu: bool
    ) -> tuple[bool, Any]:
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if not any(each.dtype in _HALF or (to_cpu and each.device.type != "cpu") for each in given):
            return False, None
        copies: list[torch.Tensor] = []

        def copied(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                copies.append(value.detach().clone())
                return copies[-1]
            return value

        own_args, own_kwargs = tree_map(copied, (args, dict(kwargs)))
        with torch.no_grad(), forked_generators(_device(args, kwargs)):
            own = function(*own_args, **own_kwargs)
        if _writes_or_views(own, copies):
            return False, None
        wide_args, wide_kwargs = tree_map(lambda value: _wide(value, to_cpu), (args, dict(kwargs)))
        with _without_autocast(_device(args, kwargs)):
            result = function(*wide_args, **wide_kwargs)
        return True, tree_map(_as, result, own)


def prepared_call(prefix: str, api: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PreparedCall:
    """Return a call with copies of all its tensors.

    Raises:
        CannotReplayError: an argument cannot be given again.
    """
    named = {key: _argument(each) for key, each in kwargs.items()}
    kind = _device(args, kwargs).type
    autocast = _name(torch.get_autocast_dtype(kind)) if _in_autocast(kind) else ""
    return PreparedCall(prefix, api, [_argument(each) for each in args], named, autocast=autocast)


class _OneFunction:
    """One function for every name (in the place of ``RecordedFunctions``)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def candidates(self, prefix: str, api: str) -> list[Callable[..., Any]]:
        """Return the function."""
        return [self._function]

    def expression(self, prefix: str, api: str) -> str:
        """Raise CannotReplayError: only a running program has the function."""
        raise CannotReplayError(f"{prefix}.{api} is a function of a running program")


def _argument(value: Any) -> Argument:
    if isinstance(value, torch.Tensor):
        return _held_copy(value)
    if isinstance(value, torch.Size):
        return Constant("size", tuple(value))
    if isinstance(value, (list, tuple)):
        parts = [_argument(each) for each in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {key: _argument(each) for key, each in value.items()}
    if isinstance(value, slice) and not any(isinstance(each, torch.Tensor) for each in _ends(value)):
        return Constant("slice", _ends(value))
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return Constant("plain", value)
    for kind, name in _named(value):
        return Constant(kind, name)
    raise CannotReplayError(f"an argument of type {type(value).__name__} cannot be given again")


def _ends(value: slice) -> tuple[Any, Any, Any]:
    return value.start, value.stop, value.step


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.dtype):
        yield "dtype", _name(value)
    elif isinstance(value, torch.device):
        yield "device", str(value)
    elif isinstance(value, torch.layout):
        yield "layout", str(value)
    elif isinstance(value, torch.memory_format):
        yield "memory_format", str(value)
    elif isinstance(value, torch.SymInt):
        yield "plain", str(int(value))
    elif value is Ellipsis:
        yield "ellipsis", None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _held_copy(tensor: torch.Tensor) -> HeldTensor:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise CannotReplayError(f"an argument of type {type(tensor).__name__} cannot be given again")
    kept = held(tensor)
    assert isinstance(kept, HeldTensor)
    shares = kept.values.flags.writeable and tensor.device.type == "cpu"
    return HeldTensor(kept.values.copy(order="K") if shares else kept.values, kept.dtype, tensor.requires_grad)


def _device(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.device:
    tensors = (each.device for each in tree_leaves((args, dict(kwargs))) if isinstance(each, torch.Tensor))
    return next(tensors, torch.device("cpu"))


def _in_autocast(kind: str) -> bool:
    try:
        return torch.is_autocast_enabled(kind)
    except (TypeError, RuntimeError) as error:  # before PyTorch 2.4, and for a device without autocast
        let_through(error)
        return False


def _without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast(device.type, enabled=False)


def _wide(value: Any, to_cpu: bool) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float32 if value in _HALF else value
    if isinstance(value, torch.device):
        return torch.device("cpu") if to_cpu else value
    if not isinstance(value, torch.Tensor):
        return value
    wide = value.float() if value.dtype in _HALF else value
    return wide.cpu() if to_cpu else wide


def _as(value: Any, own: Any) -> Any:
    """Return ``value`` in the dtype and on the device of what the function itself has returned."""
    if not isinstance(value, torch.Tensor) or not isinstance(own, torch.Tensor):
        return own
    return value.to(device=own.device, dtype=own.dtype)


def _writes_or_views(result: Any, given: list[torch.Tensor]) -> bool:
    """Return whether a function has written what it was given, or returned a view of it."""
    if any(each._version for each in given):
        return True
    memory = {each.untyped_storage().data_ptr() for each in given}
    returned = (each for each in tree_leaves(result) if isinstance(each, torch.Tensor))
    return any(each.untyped_storage().data_ptr() in memory for each in returned)
