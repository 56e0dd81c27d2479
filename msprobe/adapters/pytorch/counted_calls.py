"""Counts the calls of one model, without a hook: the compiler traces hooks, and warns of global ones.

While a model is watched, one function of the process stands in the place of ``nn.Module.__call__``. It is the same for
all models, so compiled code meets one function, and reports nothing while that code is traced. A call of the wrapper
that ``torch.compile`` made is a call of the model inside it, once.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from torch import nn

from msprobe.adapters.pytorch.compile_switch import is_traced, restore_original_call, skip_in_dynamo
from msprobe.adapters.pytorch.compiled_models import inner_model, is_compiled
from msprobe.core.capture.patch import Patches


class CountedCalls:
    """Reports the calls of at most one model at a time."""

    def __init__(self) -> None:
        self._model: weakref.ref[nn.Module] | None = None
        self._report: Callable[[], None] | None = None
        self._through = False
        self._functions: dict[Callable[..., Any], Callable[..., Any]] = {}

    def watch(self, model: nn.Module, report: Callable[[], None]) -> Callable[[], None]:
        """Report each call of ``model`` from now on, until the returned function is called."""
        original = nn.Module.__call__
        if original not in self._functions:
            self._functions[original] = self._counting(original)
        self._model, self._report, self._through = weakref.ref(model), report, False
        patches = Patches()
        patches.plan(nn.Module, "__call__", self._functions[original])
        patches.apply()

        def stop() -> None:
            if self._report is report:
                self._model = self._report = None
            patches.undo()
            restore_original_call()

        return stop

    def _counting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_traced() or self._model is None:
                return original(module, *args, **kwargs)
            watched = self._model()
            if module is watched:
                if not self._through:
                    self._tell()
            elif is_compiled(module) and inner_model(module) is watched and not self._through:
                return self._wrapped(original, module, args, kwargs)
            return original(module, *args, **kwargs)

        skip_in_dynamo(call)
        return call

    def _wrapped(self, original: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        """The call of a wrapper, in which the model may be called in Python after all."""
        self._tell()
        self._through = True
        try:
            return original(module, *args, **kwargs)
        finally:
            self._through = False

    def _tell(self) -> None:
        if self._report is not None:
            self._report()


COUNTED = CountedCalls()
