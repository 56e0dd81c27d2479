"""One observed call whose record shows something other than what it returned, such as its arguments afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.capture.observer import Observer
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import CALLING, ThreadState

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def observe_with_output(
    call: Callable[[], Any],
    site: CallSite,
    arguments: Arguments,
    make_output: Callable[[Any], Any],
    watch: tuple[Observer, ThreadState],
) -> Any:
    """Run ``call``, report it and return its result.

    Args:
        call: the call of the user, with its arguments bound.
        site: the API that the call is recorded as.
        arguments: positional and keyword arguments to record.
        make_output: makes the recorded output of the result. It runs in the user's call, so it must not raise.
        watch: the observer, and the state of this thread, which is not busy yet.
    """
    observer, thread = watch
    thread.busy = True
    try:
        token = observer.api_begin(site, *arguments)
        thread.busy = CALLING
        try:
            result = call()
        except BaseException as error:
            thread.busy = True
            if token is not None:
                observer.fail(token, error)
            raise
        thread.busy = True
        if token is not None:
            observer.end(token, make_output(result))
        return result
    finally:
        thread.busy = False
