"""Hooks on tensors: they report the gradient that arrives at a tensor or a parameter.

A package over MindSpore may replace ``Tensor.register_hook`` by a method that fails for some tensors, as mindtorch of
mindnlp 0.5.1 does for parameters. The method of MindSpore's own class is used there. A tensor that takes no hook at all
costs its own gradient and a line in the log, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.adapters.mindspore.versions import can_have_gradient, register_native_hook, says_no_gradient
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.errors import error_text
from msprobe.core.log import first_time, logger


def watch(tensor: Any, thread: ThreadState, report: Callable[[Any], None]) -> Callable[[], None] | None:
    """Report every gradient of ``tensor`` until the returned function is called.

    Returns None when the tensor cannot have a gradient, or takes no hook.
    """
    return register(tensor, gradient_hook(thread, report)) if can_have_gradient(tensor) else None


def gradient_hook(thread: ThreadState, report: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a hook that passes a gradient to ``report`` while ``thread`` is busy.

    It is a function because MindSpore before 2.9 accepts no other callable as the hook of a tensor.
    """

    def hook(gradient: Any) -> None:
        with thread.quiet():
            report(gradient)

    return hook


def register(tensor: Any, hook: Callable[[Any], None]) -> Callable[[], None] | None:
    """Register ``hook`` and return the function that removes it; None when the tensor takes no hook."""
    try:
        remove: Callable[[], None] = tensor.register_hook(hook).remove
    except Exception as error:  # noqa: BLE001  (a package may have replaced the method by any other)
        return None if says_no_gradient(error) else _register_native(tensor, hook, error)
    return remove


def _register_native(tensor: Any, hook: Callable[[Any], None], error: Exception) -> Callable[[], None] | None:
    try:
        return register_native_hook(tensor, hook)
    except Exception as second:  # noqa: BLE001  (as above; the first error is the one to report)
        if says_no_gradient(second):
            return None
        kind, fault = type(tensor).__name__, error_text(error)
        if first_time(("no hook", kind, fault)):
            logger.warning("a %s takes no gradient hook: its gradient is not recorded (%s)", kind, fault)
        return None


class ParameterHook:
    """A hook on a parameter that can be removed and set again.

    Args:
        parameter: the parameter.
        report: takes its gradients.
    """

    def __init__(self, parameter: Any, report: Callable[[Any], None]) -> None:
        self._parameter = parameter
        self._report = report
        self.set()

    def set(self) -> None:
        """Register the hook."""
        self._remove = register(self._parameter, self._report)

    def remove(self) -> None:
        """Take the hook away; do nothing where the parameter takes none."""
        if self._remove is not None:
            self._remove()
