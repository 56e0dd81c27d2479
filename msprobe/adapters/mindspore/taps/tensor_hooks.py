"""Hooks on tensors: they report the gradient that arrives at a tensor or a parameter.

A package over MindSpore may replace ``Tensor.register_hook`` by a method that fails for some tensors, as mindtorch of
mindnlp 0.5.1 does for parameters. The method of MindSpore's own class is used there. A tensor that takes no hook at all
costs its own gradient and a line in the log, nothing else.

After an operator has raised, MindSpore has forgotten the numbers of all hooks: those that were there stay for good. One
that was to be removed reports nothing, and is used again for the next hook of its parameter. The graph compiler reads
the hooks of parameters as part of the graph; of those here it reads ``_same_gradient``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from msprobe.adapters.mindspore.versions import (
    can_have_gradient,
    hooks_of,
    jit_executor,
    register_native_hook,
    says_no_gradient,
)
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger


def watch(tensor: Any, thread: ThreadState, report: Callable[[Any], None]) -> Callable[[], None] | None:
    """Report every gradient of ``tensor`` until the returned function is called.

    Returns None when the tensor cannot have a gradient, or takes no hook.
    """
    if not can_have_gradient(tensor):
        return None
    target = _Target(thread, report)
    remove = register(tensor, _hook(target))
    if remove is None:
        return None

    def release() -> None:
        target.report = None
        remove()

    return release


class _Target:
    """Where a hook reports to.

    Attributes:
        report: takes the gradients; None when the hook was removed.
    """

    __slots__ = ("report", "thread")

    def __init__(self, thread: ThreadState, report: Callable[[Any], None] | None) -> None:
        self.thread = thread
        self.report = report


def _hook(target: _Target) -> Callable[[Any], None]:
    """Return the hook of a target: a function, because MindSpore before 2.9 takes no other callable."""

    def hook(gradient: Any) -> None:
        report = target.report
        if report is not None:
            with target.thread.quiet():
                report(gradient)

    vars(hook).update(__wrapped__=_same_gradient, target=target)
    return hook


def _same_gradient(gradient: Any) -> Any:
    """Return the gradient: the graph compiler reads this function in place of a hook."""
    return gradient


def _left_behind(tensor: Any) -> _Target | None:
    """Return the target of a hook that was removed and is still there."""
    targets = (getattr(hook, "target", None) for hook in hooks_of(tensor))
    return next((target for target in targets if isinstance(target, _Target) and target.report is None), None)


def register(tensor: Any, hook: Callable[[Any], None]) -> Callable[[], None] | None:
    """Register ``hook`` and return the function that removes it; None when the tensor takes no hook."""
    try:
        remove: Callable[[], None] = tensor.register_hook(hook).remove
    except Exception as error:  # noqa: BLE001  (a package may have replaced the method by any other)
        let_through(error)
        return None if says_no_gradient(error) else _register_native(tensor, hook, error)
    return remove


def _register_native(tensor: Any, hook: Callable[[Any], None], error: Exception) -> Callable[[], None] | None:
    try:
        return register_native_hook(tensor, hook)
    except Exception as second:  # noqa: BLE001  (as above; the first error is the one to report)
        let_through(second)
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
        thread: is made busy while a gradient is reported.
        report: takes its gradients.
    """

    def __init__(self, parameter: Any, thread: ThreadState, report: Callable[[Any], None]) -> None:
        self._parameter = parameter
        self._thread = thread
        self._report = report
        self.set()

    def set(self) -> None:
        """Register the hook, or take over one that could not be removed."""
        left = _left_behind(self._parameter)
        self._target = left or _Target(self._thread, self._report)
        self._target.thread, self._target.report = self._thread, self._report
        self._remove = register(self._parameter, _hook(self._target)) if left is None else None

    def remove(self) -> None:
        """Take the hook away; do nothing where the parameter takes none."""
        self._target.report = None
        if self._remove is not None:
            self._remove()


class ParameterHooks:
    """Hooks on many parameters. They are off while the graph compiler works: it would read them too."""

    def __init__(self) -> None:
        self._hooks: list[ParameterHook] = []

    def attach(self, hooks: list[ParameterHook]) -> Callable[[], None]:
        """Take care of hooks that are set; return the function that removes them."""
        self._hooks = hooks
        executor = Patches()  # they are there until the step ends, and functions are compiled after ``stop`` too
        kind = jit_executor()
        if hooks and kind is not None:
            executor.plan(kind, "compile", self._without(kind.compile))
        executor.apply()

        def detach() -> None:
            executor.undo()
            self._hooks = []
            while hooks:  # a second call finds none
                hooks.pop().remove()

        return detach

    @contextlib.contextmanager
    def taken_off(self) -> Iterator[None]:
        """Take the hooks off the parameters inside the returned context."""
        hooks, self._hooks = self._hooks, []  # none to take off where this is entered again inside
        for hook in hooks:
            hook.remove()
        try:
            yield
        finally:
            self._hooks = hooks
            for hook in hooks:
                hook.set()

    def _without(self, compile: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compile)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.taken_off():
                return compile(*args, **kwargs)

        return call
