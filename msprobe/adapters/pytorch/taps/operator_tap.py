"""The operators below the functions: every call of ``torch.ops.aten`` under the prefix ``Aten``.

A ``TorchDispatchMode`` below autograd sees them, whoever calls them: the user, a recorded API, the backward pass or an
optimizer. So an operator has no backward entry; the backward pass makes further calls of operators. The calls of the
tool are recognized by ``ThreadState.busy``. The mode belongs to the thread that called ``start``, and to the threads
of autograd that work for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe.adapters.pytorch.tensors.operation_modes import pushed_below
from msprobe.adapters.pytorch.tensors.unwritten import GROWING, MAKERS
from msprobe.core.capture.containers import tensors_in
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.partial_writes import WRITERS
from msprobe.core.capture.thread_state import CALLING, ThreadState
from msprobe.core.capture.unwritten import UnwrittenMemory

_MAKERS = frozenset(name for names in MAKERS.values() for name in names)
PREFIX = "Aten"
NAMESPACE = "aten"


class TorchOperatorTap:
    """Implements ``OperatorTap``."""

    def __init__(self, current: CurrentObserver, thread: ThreadState, unwritten: UnwrittenMemory) -> None:
        self._unwritten = unwritten
        self._current = current
        self._thread = thread
        self._sites: dict[Any, CallSite | None] = {}  # by overload; all overloads of one operator share a site
        self._named: dict[str, CallSite] = {}

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        with pushed_below(_OperatorMode(self)):
            yield

    def reset(self) -> None:
        for site in list(self._named.values()):  # other threads call operators for the first time
            site.reset()

    def run(self, operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call ``operator`` and report it, unless the tool itself called it."""
        thread, observer = self._thread, self._current.observer
        busy = thread.busy
        if observer is None or (busy and busy != CALLING):
            return operator(*args, **kwargs)
        site = self._site(operator)
        if site is None:
            self._unwritten.forget(tensors_in((args, kwargs), torch.Tensor))  # who knows what the operator writes
            return operator(*args, **kwargs)
        try:
            thread.busy = True
            token = observer.api_begin(site, args, kwargs)
            if token is None:
                return operator(*args, **kwargs)
            grows = site.api in GROWING and not self._unwritten.is_written(args[0])
            memory = self._unwritten.begin_write(site.api, args[0]) if site.api in WRITERS else None
            try:
                result = operator(*args, **kwargs)
            except BaseException as error:
                observer.fail(token, error)
                raise
            if memory is not None:
                self._unwritten.end_write(memory, site.api, args, kwargs)
            else:
                self._note(operator, grows or site.api in _MAKERS, (args, kwargs), result)
            observer.end(token, result)
            return result
        finally:
            thread.busy = busy

    def _note(self, operator: Any, makes: bool, arguments: Any, result: Any) -> None:
        """Know the memory that ``operator`` has made, or forget that which it has written."""
        if makes:
            self._unwritten.add(result)
        elif operator._schema.is_mutable:
            self._unwritten.forget(tensors_in(arguments, torch.Tensor))

    def _site(self, operator: Any) -> CallSite | None:
        if operator not in self._sites:
            self._sites[operator] = self._new_site(operator)
        return self._sites[operator]

    def _new_site(self, operator: Any) -> CallSite | None:
        """Return a site for an ATen operator; None for a higher-order operator or one of another namespace."""
        if getattr(operator, "namespace", None) != NAMESPACE:
            return None
        name = operator.overloadpacket.__name__
        site = self._named.setdefault(name, CallSite(PREFIX, name))
        site.differentiable = False
        return site


class _OperatorMode(TorchDispatchMode):
    """Calls ``tap.run`` for every operator until ``ended`` is True."""

    supports_higher_order_operators = True

    def __init__(self, tap: TorchOperatorTap) -> None:
        super().__init__()
        self.tap = tap
        self.ended = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: otherwise torch would run compiled functions uncompiled under this mode."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.ended:
            return func(*args, **(kwargs or {}))
        return self.tap.run(func, args, kwargs or {})
