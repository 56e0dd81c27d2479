"""A call of communication: buffers that only receive are no inputs, and the wrapper says how the call ends."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.capture.observer import Relay
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState
from msprobe.core.capture.wrap import never

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
Blank = tuple[int, str] | None
"""Position and name of a parameter that stands as null in the record."""
End = Callable[[Any, Arguments, Any], None]
"""Called with the record, the arguments and the result when the function has returned."""


class CollectiveCalls:
    """Makes wrappers for the functions of one framework.

    Args:
        receives: by function, the position of the parameter that carries no data yet.
        traced: tells that a compiler reads the code instead of running it.
    """

    def __init__(
        self, receives: Mapping[str, int], relay: Relay, thread: ThreadState, traced: Callable[[], bool] = never
    ) -> None:
        self._receives = receives
        self._relay = relay
        self._thread = thread
        self._traced = traced

    def observed(
        self, site: CallSite, original: Callable[..., Any], end: End, call: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """``original``, or ``call`` in its place, reported as ``site``."""
        relay, thread, traced, run = self._relay, self._thread, self._traced, call or original
        unsent = blank(original, self._receives.get(site.api))

        @functools.wraps(original)
        def observed(*args: Any, **kwargs: Any) -> Any:
            if traced():
                return original(*args, **kwargs)
            observer = relay.observer
            if thread.busy or observer is None:
                return run(*args, **kwargs)
            thread.busy = True
            try:
                record = observer.api_begin(site, *without((args, kwargs), unsent))
                if record is None:
                    return run(*args, **kwargs)
                try:
                    result = run(*args, **kwargs)
                except BaseException as error:
                    observer.fail(record, error)
                    raise
                end(record, (args, kwargs), result)
                return result
            finally:
                thread.busy = False

        return observed

    def announcing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The function that gives the process its rank: the session is told when it has one."""

        @functools.wraps(original)
        def announced(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._relay.ranked is not None:
                self._relay.ranked()
            return result

        return announced


def blank(function: Callable[..., Any], position: int | None) -> Blank:
    """The parameter at ``position`` of a function; without a name where the function shows none."""
    if position is None:
        return None
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # written in another language
        names = []
    return position, names[position] if position < len(names) else ""


def without(arguments: Arguments, hidden: Blank) -> Arguments:
    """The arguments with one of them left out of sight."""
    if hidden is None:
        return arguments
    (position, key), (positional, keywords) = hidden, arguments
    if len(positional) > position:
        return (*positional[:position], None, *positional[position + 1 :]), keywords
    return positional, {**keywords, key: None} if key in keywords else keywords
