"""One observed call whose record shows something other than what it returns: its arguments afterwards, say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.capture.observer import Observer
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import CALLING, ThreadState

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def run_shown(
    call: Callable[[], Any],
    site: CallSite,
    arguments: Arguments,
    shown: Callable[[Any], Any],
    watch: tuple[Observer, ThreadState],
) -> Any:
    """Run ``call`` and report it as ``site`` with ``arguments``; ``shown`` makes the recorded output of its result.

    ``shown`` runs in the user's call, so it must not raise. The thread is not busy yet.
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
            observer.end(token, shown(result))
        return result
    finally:
        thread.busy = False
