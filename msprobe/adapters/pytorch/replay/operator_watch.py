"""Every operator that a block runs, with its inputs and results: below autograd, forward and backward.

Views, operators that draw random numbers, operators without a tensor among their inputs, and subclasses of tensors are
passed on unseen. What the program gets is what the operator returned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from msprobe.adapters.pytorch.replay.live_functions import prepared_call
from msprobe.adapters.pytorch.replay.runner import asked_results, held, results_of
from msprobe.adapters.pytorch.tensors.operation_modes import pushed_below
from msprobe.core.backend.replaying import (
    Execution,
    OperatorHandler,
    PreparedCall,
)
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_PREFIX = "Aten"
_BACKENDS = ("mkldnn", "cudnn", "miopen", "mps", "xnnpack")
"""Operators of one backend begin with its name. In another precision they have no kernel, or end the process."""


class OperatorWatch(TorchDispatchMode):
    """Shows a handler the operators of ``torch.ops.aten``.

    Attributes:
        ended: True when it sees no more.
    """

    def __init__(self, handler: OperatorHandler) -> None:
        super().__init__()
        self._handler = handler
        self._checkable: dict[Any, bool] = {}
        self.ended = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and show it to the handler where that wants it."""
        kwargs = kwargs or {}
        call = None if self.ended else self._call(func, args, kwargs)
        result = func(*args, **kwargs)
        if call is not None:
            try:
                results = results_of(result, asked_results(func, args, kwargs))
                self._handler.check(call, Execution([held(each) for each in results]))
            except Exception as error:  # noqa: BLE001  a tool never breaks training
                let_through(error)
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
            return prepared_call(_PREFIX, name, args, kwargs)
        except Exception as error:  # noqa: BLE001  a tool never breaks training
            let_through(error)
            self._tell(name, error)
            return None

    def _tell(self, name: str, error: Exception) -> None:
        if first_time(("online check", name)):
            logger.warning("online check: %s is not checked: %s", name, error_text(error))


class CheckedOperatorTap:
    """Implements ``OperatorTap``: shows operators to the observer of the session, which checks them."""

    def __init__(self, current: CurrentObserver, thread: ThreadState) -> None:
        self._current, self._thread = current, thread

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        watch = OperatorWatch(self)
        with pushed_below(watch):
            yield

    def reset(self) -> None:
        """Do nothing: wrong operators are numbered by the observer."""

    def wants(self, name: str, signature: Hashable) -> bool:
        """Return whether the observer wants an operator that the program itself runs."""
        observer: Any = self._current.observer
        return observer is not None and not self._thread.busy and bool(observer.wants(name, signature))

    def check(self, call: PreparedCall, execution: Execution) -> None:
        """Show an operator to the observer."""
        observer: Any = self._current.observer
        if observer is not None:
            with self._thread.quiet():
                observer.check(call, execution)


def _is_checkable(func: Any) -> bool:
    random = torch.Tag.nondeterministic_seeded in func.tags
    of_a_backend = func.__name__.lstrip("_").startswith(_BACKENDS)
    known = func.namespace == "aten" and not of_a_backend and bool(func._schema.returns)
    return known and not func.is_view and not random


def _name(func: Any) -> str:
    return f"{func._schema.name.partition('::')[2]}.{func._overloadname}"


def _signature(tensors: list[torch.Tensor]) -> Hashable:
    return tuple((each.dtype, each.shape) for each in tensors)
