"""Observe functions that ``ms.jit`` compiles inside a dynamic graph: ``Jit.<function>.0.forward``.

The compiler reads the source of a function and looks its names up, so it must not find a wrapper: while a jit function
runs, every replaced attribute is the original again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from msprobe.adapters.mindspore.versions import cell_executor, jit_executor
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import wrap


class JitTap:
    """Observes calls of jit functions, during which all other patches are suspended.

    Args:
        others: the patches that the compiler must not find.
        site: returns the counter of an API by prefix and name.
        current: holds the observer of the present step.
        thread: the state of the present thread.
    """

    def __init__(
        self, others: Patches, site: Callable[[str, str], CallSite], current: CurrentObserver, thread: ThreadState
    ) -> None:
        self._others = others
        self._site = site
        self._current = current
        self._thread = thread
        self._patches = Patches()
        if EXECUTOR is not None:
            self._patches.plan(EXECUTOR, "__call__", self._observed(EXECUTOR.__call__))
        _suspend_while_cells_compile(self._patches, others)

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        """Observe the functions under ``ms.jit`` inside this context."""
        with self._patches.in_force():
            yield

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(executor: Any, *args: Any, **kwargs: Any) -> Any:
            function = wrap(
                self._unwrapped(original, executor), self._site("Jit", _name(executor)), self._current, self._thread
            )
            return function(*args, **kwargs)

        return call

    def _unwrapped(self, original: Callable[..., Any], executor: Any) -> Callable[..., Any]:
        return functools.partial(_suspending(original, self._others), executor)


def suspend_while_compiled(patches: Patches, others: Patches) -> None:
    """Add to ``patches`` what suspends ``others`` while a jit function runs, where nothing of it is recorded."""
    if EXECUTOR is not None:
        patches.plan(EXECUTOR, "__call__", _suspending(EXECUTOR.__call__, others))
    _suspend_while_cells_compile(patches, others)


def _suspend_while_cells_compile(patches: Patches, others: Patches) -> None:
    if CELLS is not None:
        patches.plan(CELLS, "compile", _suspending(CELLS.compile, others))


def _suspending(original: Callable[..., Any], others: Patches) -> Callable[..., Any]:
    """Return ``original`` so that ``others`` are suspended while it runs."""

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        with others.suspended():
            return original(*args, **kwargs)

    return run


EXECUTOR = jit_executor()
CELLS = cell_executor()


def _name(executor: Any) -> str:
    """Return the name of the function, or the class of the cell whose ``construct`` it is."""
    owner = getattr(executor, "obj", None)
    return type(owner).__name__ if owner is not None else str(getattr(executor.fn, "__name__", "jit"))
