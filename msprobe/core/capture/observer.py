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

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any: ...

    def end(self, token: Any, result: Any) -> None: ...

    def fail(self, token: Any, error: BaseException) -> None: ...

    def module_begin(self, site: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any: ...

    def module_end(self, token: Any, result: Any) -> None: ...

    def module_fail(self, token: Any, error: BaseException) -> None: ...

    def parameter_gradient(self, site: Any, key: str, gradient: Any) -> None: ...

    def enter(self, name: str) -> Any: ...

    def leave(self, token: Any) -> None: ...

    def graph_run(self, parts: Sequence[str]) -> Any: ...

    def graphs(self) -> Any: ...


class Relay:
    """Holds the observer of the present step; the taps live as long as the session.

    ``ranked`` is called when this process has just been given its rank.
    """

    __slots__ = ("observer", "ranked")

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self.ranked: Callable[[], None] | None = None
