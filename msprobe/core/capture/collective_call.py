"""Wrappers for calls of communication: buffers that only receive are no inputs, the adapter says how a call ends."""

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
HiddenParameter = tuple[int, str] | None
"""Position and name of a parameter that stands as null in the record."""
End = Callable[[Any, Arguments, Any], None]
"""Called with the record, the arguments and the result when the function has returned."""


class CollectiveCalls:
    """Makes wrappers for the functions of one framework.

    Args:
        receives: by function, the position of the parameter that carries no data yet.
        relay: holds the observer that is told.
        thread: is made busy while a call is observed.
        traced: tells whether a compiler reads the code instead of running it.
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
        """Return a wrapper of ``original`` that reports its calls.

        Args:
            site: the API that the calls are recorded as.
            original: the function of the framework.
            end: is told when the function has returned.
            call: is called in place of ``original``.
        """
        relay, thread, traced, run = self._relay, self._thread, self._traced, call or original
        receive_buffer = receive_parameter(original, self._receives.get(site.api))

        @functools.wraps(original)
        def observed(*args: Any, **kwargs: Any) -> Any:
            if traced():
                return original(*args, **kwargs)
            observer = relay.observer
            if thread.busy or observer is None:
                return run(*args, **kwargs)
            thread.busy = True
            try:
                record = observer.api_begin(site, *without_parameter((args, kwargs), receive_buffer))
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

    def with_rank_notice(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of the function that gives the process its rank; it tells the session of the rank."""

        @functools.wraps(original)
        def with_notice(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._relay.ranked is not None:
                self._relay.ranked()
            return result

        return with_notice


def receive_parameter(function: Callable[..., Any], position: int | None) -> HiddenParameter:
    """Return the parameter at ``position`` of a function, with an empty name where the function shows none."""
    if position is None:
        return None
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # written in another language
        names = []
    return position, names[position] if position < len(names) else ""


def without_parameter(arguments: Arguments, hidden: HiddenParameter) -> Arguments:
    """Return the arguments with None in place of the hidden one."""
    if hidden is None:
        return arguments
    (position, key), (positional, keywords) = hidden, arguments
    if len(positional) > position:
        return (*positional[:position], None, *positional[position + 1 :]), keywords
    return positional, {**keywords, key: None} if key in keywords else keywords
