"""Report the calls of one model without a hook, because the compiler traces hooks and warns of global ones.

While a model is watched, a function takes the place of ``nn.Module.__call__``. It is the same for all models, so
compiled code meets one function, and it reports nothing while that code is traced. A call of the wrapper that
``torch.compile`` made counts as one call of the model inside it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from torch import nn

from msprobe.adapters.pytorch.compile.compiled_models import inner_model, is_compiled
from msprobe.adapters.pytorch.compile.recompilation import is_traced, restore_original_call, skip_in_dynamo
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.slots import place_of


class CallCounter:
    """Reports the calls of at most one model at a time."""

    def __init__(self) -> None:
        self._model: weakref.ref[nn.Module] | None = None
        self._report: Callable[[], None] | None = None
        self._inside_wrapper = False
        self._functions: dict[Callable[..., Any], Callable[..., Any]] = {}

    def watch(self, model: nn.Module, report: Callable[[], None]) -> Callable[[], None]:
        """Call ``report`` at each call of ``model``, until the returned function is called."""
        place = place_of(nn.Module, "__call__")
        original = getattr(*place)
        if original not in self._functions:
            self._functions[original] = self._counting_call(original)
        self._model, self._report, self._inside_wrapper = weakref.ref(model), report, False
        patches = Patches()
        patches.plan(*place, self._functions[original])
        patches.apply()

        def stop() -> None:
            if self._report is report:
                self._model = self._report = None
            patches.undo()
            restore_original_call()

        return stop

    def _counting_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            reference = self._model
            if is_traced() or reference is None:
                return original(module, *args, **kwargs)
            watched = reference()
            if module is watched:
                if not self._inside_wrapper:
                    self._report_call()
            elif is_compiled(module) and inner_model(module) is watched and not self._inside_wrapper:
                return self._wrapper_call(original, module, args, kwargs)
            return original(module, *args, **kwargs)

        skip_in_dynamo(call)
        return call

    def _wrapper_call(self, original: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Call a wrapper and count it once, also where it calls the model in Python."""
        self._report_call()
        self._inside_wrapper = True
        try:
            return original(module, *args, **kwargs)
        finally:
            self._inside_wrapper = False

    def _report_call(self) -> None:
        report = self._report
        if report is not None:
            report()


CALL_COUNTER = CallCounter()
