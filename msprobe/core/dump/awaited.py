"""A step that nobody asked for, as the one before was never stopped: it begins, folder and all, at its first call.

A server that is idle between two requests so leaves no empty step behind, not even for the time of the pause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msprobe.core.capture.observer import Observer
from msprobe.core.capture.site import CallSite
from msprobe.core.dump import handle
from msprobe.core.dump.shield import ErrorLog, shielded


class Awaited:
    """Stands for the observer of the step (implements ``Observer``), and hands everything on to it once it is there.

    Args:
        begin: opens the step and gives its observer; None when it is no longer wanted.
    """

    def __init__(self, begin: Callable[[], Observer | None]) -> None:
        self.errors = ErrorLog(None)
        self._begin: Callable[[], Observer | None] | None = begin
        self._observer: Observer | None = None

    def open(self) -> Observer | None:
        """The observer; whatever keeps the step from beginning is raised once, and then there is none."""
        if self._begin is not None:
            with handle.LOCK:
                begin, self._begin = self._begin, None
                if begin is not None:  # no other thread was faster
                    self._observer = begin()
        return self._observer

    @shielded
    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        observer = self.open()
        return None if observer is None else observer.api_begin(site, args, kwargs)

    @shielded
    def end(self, token: Any, result: Any) -> None:
        if self._observer is not None:
            self._observer.end(token, result)

    @shielded
    def fail(self, token: Any, error: BaseException) -> None:
        if self._observer is not None:
            self._observer.fail(token, error)

    @shielded
    def module_begin(self, site: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        observer = self.open()
        return None if observer is None else observer.module_begin(site, args, kwargs)

    @shielded
    def module_end(self, token: Any, result: Any) -> None:
        if self._observer is not None:
            self._observer.module_end(token, result)

    @shielded
    def module_fail(self, token: Any, error: BaseException) -> None:
        if self._observer is not None:
            self._observer.module_fail(token, error)

    @shielded
    def parameter_gradient(self, site: Any, key: str, gradient: Any) -> None:
        observer = self.open()
        if observer is not None:
            observer.parameter_gradient(site, key, gradient)

    @shielded
    def enter(self, name: str) -> Any:
        observer = self.open()
        return None if observer is None else observer.enter(name)

    @shielded
    def leave(self, token: Any) -> None:
        if self._observer is not None and token is not None:
            self._observer.leave(token)

    def graph_run(self, parts: Sequence[str]) -> Any:
        observer = self._opened()
        return None if observer is None else observer.graph_run(parts)

    def graphs(self) -> Any:
        return None if self._observer is None else self._observer.graphs()

    @shielded
    def _opened(self) -> Observer | None:
        return self.open()
