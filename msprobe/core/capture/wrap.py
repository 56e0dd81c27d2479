"""Wrap a function so that its calls are observed at begin and end; the call itself is untouched.

Only the outermost observed call of a thread is reported: what an API calls internally is its own business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.core.capture.look_alike import look_like
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import ThreadState


def never() -> bool:
    return False


def wrap(
    original: Callable[..., Any],
    site: CallSite,
    relay: Relay,
    thread: ThreadState,
    traced: Callable[[], bool] = never,
) -> Callable[..., Any]:
    """A callable that behaves, signs and introspects like ``original`` and reports its calls as ``site``.

    ``traced`` tells that a compiler reads the code instead of running it: what it then sees is the original alone.
    """

    # Whole in one function: a helper would be one more frame in each call, and a compiler that passes this one by would
    # compile it. So operators and collectives have the same lines again.
    def observed(*args: Any, **kwargs: Any) -> Any:
        if traced():
            return original(*args, **kwargs)
        observer = relay.observer
        if thread.busy or observer is None:
            return original(*args, **kwargs)
        thread.busy = True
        try:
            token = observer.api_begin(site, args, kwargs)
            if token is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                observer.fail(token, error)
                raise
            observer.end(token, result)
            return result
        finally:
            thread.busy = False

    look_like(observed, original)
    return observed
