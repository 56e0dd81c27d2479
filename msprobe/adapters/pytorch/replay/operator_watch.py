"""Every operator that a block runs, with its inputs and results: below autograd, forward and backward.

Views, operators that draw random numbers, operators without a tensor among their inputs, and subclasses of tensors are
passed on unseen. What the program gets is what the operator returned.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from msprobe.adapters.pytorch.replay.runner import held
from msprobe.core.backend.replaying import (
    Argument,
    CannotReplayError,
    Constant,
    Execution,
    HeldTensor,
    OperatorHandler,
    PreparedCall,
)
from msprobe.core.errors import error_text
from msprobe.core.log import first_time, logger

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_PREFIX = "Aten"
_BACKENDS = ("mkldnn", "cudnn", "miopen", "mps", "xnnpack")
"""Operators of one backend begin with its name. In another precision they have no kernel, or end the process."""


class OperatorWatch(TorchDispatchMode):
    """Shows a handler the operators of ``torch.ops.aten``."""

    def __init__(self, handler: OperatorHandler) -> None:
        super().__init__()
        self._handler = handler
        self._checkable: dict[Any, bool] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and show it to the handler where that wants it."""
        kwargs = kwargs or {}
        call = self._call(func, args, kwargs)
        result = func(*args, **kwargs)
        if call is not None:
            try:
                self._handler.check(call, Execution([held(each) for each in tree_leaves(result)]))
            except Exception as error:  # noqa: BLE001  a tool never breaks training
                self._tell(call.api, error)
        return result

    def _call(self, func: Any, args: Any, kwargs: Any) -> PreparedCall | None:
        """Return the call with copies of its inputs, which an operator may write; None for one that is not checked."""
        checkable = self._checkable.get(func)
        if checkable is None:
            checkable = self._checkable[func] = _is_checkable(func)
        if not checkable:
            return None
        name = _name(func)
        try:
            tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
            if not tensors or any(type(each) not in _PLAIN or each.is_meta for each in tensors):
                return None
            if not self._handler.wants(name, _signature(tensors)):
                return None
            named = {key: _argument(each) for key, each in kwargs.items()}
            return PreparedCall(_PREFIX, name, [_argument(each) for each in args], named)
        except Exception as error:  # noqa: BLE001  a tool never breaks training
            self._tell(name, error)
            return None

    def _tell(self, name: str, error: Exception) -> None:
        if first_time(("online check", name)):
            logger.warning("online check: %s is not checked: %s", name, error_text(error))


def _is_checkable(func: Any) -> bool:
    random = torch.Tag.nondeterministic_seeded in func.tags
    of_a_backend = func.__name__.lstrip("_").startswith(_BACKENDS)
    known = func.namespace == "aten" and not of_a_backend and bool(func._schema.returns)
    return known and not func.is_view and not random


def _name(func: Any) -> str:
    return f"{func._schema.name.partition('::')[2]}.{func._overloadname}"


def _signature(tensors: list[torch.Tensor]) -> Hashable:
    return tuple((each.dtype, each.shape) for each in tensors)


def _argument(value: Any) -> Argument:
    if isinstance(value, torch.Tensor):
        kept = held(value)
        assert isinstance(kept, HeldTensor)
        return HeldTensor(kept.values.copy(), kept.dtype)
    if isinstance(value, (list, tuple)):
        return [_argument(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return Constant("plain", value)
    for kind, name in _named(value):
        return Constant(kind, name)
    raise CannotReplayError(f"an argument of type {type(value).__name__} cannot be given again")


def _named(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, torch.dtype):
        yield "dtype", str(value).rpartition(".")[2]
    elif isinstance(value, torch.device):
        yield "device", str(value)
    elif isinstance(value, torch.layout):
        yield "layout", str(value)
    elif isinstance(value, torch.memory_format):
        yield "memory_format", str(value)
    elif isinstance(value, torch.SymInt):
        yield "plain", str(int(value))
