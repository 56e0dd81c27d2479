"""Tell of each call of a function before it is recorded, whether anything is recorded at that time or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.capture.observer import CallSite, CurrentObserver

Called = Callable[[str, tuple[Any, ...], Mapping[str, Any]], None]
"""Is told the name of a function, and the arguments of a call of it that begins."""


class FunctionCalls:
    """Stands in the place of the current observer, until another one is shown, and passes on what it is told.

    Args:
        current: holds the observer.
        called: may show another observer, to which the call is reported then.
    """

    def __init__(self, current: CurrentObserver, called: Called) -> None:
        self._current = current
        self._called = called
        self._observer = _behind(current.observer)
        current.observer = self

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Tell of the call, and begin it at the observer that is shown then."""
        self._called(site.api, args, kwargs)
        self._observer = observer = _behind(self._current.observer)
        return None if observer is None else observer.api_begin(site, args, kwargs)

    def value_read(self, *read: Any) -> None:
        """Pass on what the program reads, also after the calls of a step."""
        observer = self._observer or _behind(self._current.stopped)
        if observer is not None:
            observer.value_read(*read)

    def __getattr__(self, name: str) -> Any:
        observer = self._observer
        return _nothing if observer is None else getattr(observer, name)


def _behind(shown: Any) -> Any:
    return shown._observer if type(shown) is FunctionCalls else shown


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Do nothing: nobody observes."""
