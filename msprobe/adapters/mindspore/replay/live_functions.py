"""Calls of a running program: their arguments copied, so that they can be run again.

What a program owns beside tensors is never given to a second call: a call with such an argument cannot be run again.
MindSpore draws the numbers of a function from seeds of its operators, which a second call would move on: calls of
random functions are not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import mindspore
import numpy as np

from msprobe.adapters.mindspore.replay.functions import is_random
from msprobe.adapters.mindspore.replay.runner import (
    MindSporeReplayer,
    held,
    leaves_of,
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
from msprobe.core.tensors.dtypes import find_dtype

_HALF = (mindspore.float16, mindspore.bfloat16)


class MindSporeLiveFunctions:
    """Implements ``LiveFunctions`` for MindSpore."""

    def prepare(self, prefix: str, api: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PreparedCall:
        if is_random(api):
            raise CannotReplayError("it draws random numbers")
        return PreparedCall(prefix, api, [_argument(each) for each in args], _arguments(kwargs))

    def device(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return {"CPU": "cpu", "GPU": "gpu"}.get(str(mindspore.get_context("device_target")), "npu")

    def signature(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        return tuple((str(each.dtype), each.shape) for each in leaves_of((args, kwargs)) if _is_tensor(each))

    def operators(self) -> Replayer:
        return make_replayer()

    def held(self, tensor: Any) -> HeldTensor:
        return _held_copy(tensor)

    def execution(self, result: Any) -> Execution:
        return Execution([_held_copy(each) if _is_tensor(each) else each for each in results_of(result)])

    def arguments(self, call: PreparedCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tensors_of(call)

    def replayer(self, function: Callable[..., Any]) -> Replayer:
        return MindSporeReplayer(_OneFunction(function))

    def program_state(self) -> Any:
        return "kept"  # no generator is touched, see above

    def has_drawn(self, state: Any) -> bool:
        return False

    def improved(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], to_cpu: bool
    ) -> tuple[bool, Any]:
        halves = {each.dtype for each in leaves_of((args, kwargs)) if _is_tensor(each)} & set(_HALF)
        if not halves:
            return False, None
        own = function(*args, **kwargs)
        result = function(*_wide(args), **_wide(dict(kwargs)))
        return True, _as(result, own)


class _OneFunction:
    """One function for every name (in the place of ``RecordedFunctions``)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def find(self, prefix: str, api: str, attributes: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """Return the function, or the operator, which is made already."""
        return self._function

    def expression(self, prefix: str, api: str, attributes: str = "") -> str:
        """Raise CannotReplayError: only a running program has the function."""
        raise CannotReplayError(f"{prefix}.{api} is a function of a running program")


def _arguments(kwargs: Mapping[str, Any]) -> dict[str, Argument]:
    return {key: _argument(each) for key, each in kwargs.items()}


def _argument(value: Any) -> Argument:
    if isinstance(value, mindspore.Tensor):
        return _held_copy(value)
    if isinstance(value, (list, tuple)):
        parts = [_argument(each) for each in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return _arguments(value)
    if isinstance(value, slice):
        return Constant("slice", (value.start, value.stop, value.step))
    if value is None or isinstance(value, (bool, int, float, str)):
        return Constant("plain", value)
    if value is Ellipsis:
        return Constant("ellipsis")
    known = find_dtype(str(value)) if isinstance(value, mindspore.Type) else None
    if known is not None:
        return Constant("dtype", known.name)
    raise CannotReplayError(f"an argument of type {type(value).__name__} cannot be given again")


def _held_copy(tensor: Any) -> HeldTensor:
    kept = held(tensor)
    assert isinstance(kept, HeldTensor)
    known = find_dtype(kept.dtype)
    return HeldTensor(np.array(kept.values), kept.dtype, known is not None and bool(known.digits))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, mindspore.Tensor)


def _wide(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        parts = [_wide(each) for each in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {key: _wide(each) for key, each in value.items()}
    if isinstance(value, mindspore.Tensor) and value.dtype in _HALF:
        return value.astype(mindspore.float32)
    return mindspore.float32 if any(value is half for half in _HALF) else value


def _as(value: Any, own: Any) -> Any:
    """Return ``value`` in the dtype of what the function itself has returned."""
    if isinstance(value, (list, tuple)) and isinstance(own, (list, tuple)):
        parts = [_as(each, other) for each, other in zip(value, own, strict=True)]
        return tuple(parts) if isinstance(own, tuple) else parts
    if not isinstance(value, mindspore.Tensor) or not isinstance(own, mindspore.Tensor):
        return own
    return value.astype(own.dtype)
