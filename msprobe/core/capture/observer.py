"""What a tap reports to: an observer that is told that a call begins, ends or fails.

The observer answers with a token that the tap hands back at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msprobe.core.capture.site import CallSite


class Observer(Protocol):
    """Is told of calls.

    No method may raise, because it runs inside the user's call. A token of None means that the call is not recorded.
    """

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Begin the call of an API and return its token."""
        ...

    def end(self, token: Any, result: Any) -> None:
        """End the call of an API that returned ``result``."""
        ...

    def fail(self, token: Any, error: BaseException) -> None:
        """End the call of an API that raised ``error``."""
        ...

    def module_begin(self, site: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Begin the call of a module and return its token."""
        ...

    def module_end(self, token: Any, result: Any) -> None:
        """End the call of a module that returned ``result``."""
        ...

    def module_fail(self, token: Any, error: BaseException) -> None:
        """End the call of a module that raised ``error``."""
        ...

    def parameter_gradient(self, site: Any, key: str, gradient: Any) -> None:
        """Record the gradient of the parameter ``key`` of a module."""
        ...

    def enter(self, name: str) -> Any:
        """Begin a scope such as ``optimizer`` and return its token."""
        ...

    def leave(self, token: Any) -> None:
        """End a scope."""
        ...

    def graph_run(self, parts: Sequence[str]) -> Any:
        """Begin a run of a static graph whose model calls ``parts``, and return the receiver of its values."""
        ...

    def graphs(self) -> Any:
        """Return the receiver of the values of static graphs."""
        ...


class Relay:
    """Hold the current observer: the taps live as long as the session, an observer lives for one step.

    Args:
        ranked: called when this process has just got its rank.
    """

    __slots__ = ("observer", "ranked")

    def __init__(self, ranked: Callable[[], None] | None = None) -> None:
        self.observer: Observer | None = None
        self.ranked = ranked
