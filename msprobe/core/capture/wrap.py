"""Wrap a function so that its calls are observed at begin and end; the call itself is untouched.

Only the outermost observed call of a thread is reported: what an API calls internally is its own business.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from msprobe.core.capture.look_alike import copy_signature
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.site import CallSite
from msprobe.core.capture.thread import Quiet, ThreadState


def never() -> bool:
    """Return False: no compiler reads the code."""
    return False


def wrap(
    original: Callable[..., Any],
    site: CallSite,
    relay: Relay,
    thread: ThreadState,
    traced: Callable[[], bool] = never,
) -> Callable[..., Any]:
    """Return a callable that behaves, signs and introspects like ``original`` and reports its calls as ``site``.

    Args:
        original: the function to call.
        site: the API that the calls are recorded as.
        relay: holds the observer that is told.
        thread: is made busy while a call is observed, so that the calls it makes are not reported.
        traced: tells whether a compiler reads the code instead of running it; it then sees the original alone.
    """

    # One function: a helper would be one more frame in each call, and a compiler that skips this frame would compile
    # the frames that it calls. So operators and collectives have the same lines again.
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

    copy_signature(observed, original)
    return observed


class Tracing(NamedTuple):
    """What a module call does while a compiler traces it.

    ``active()`` tells whether a compiler reads the code instead of running it; ``call(original, module, args, kwargs)``
    is what the compiler then reads in place of the observed call.
    """

    active: Callable[[], bool]
    call: Callable[..., Any]


def _call_original(original: Callable[..., Any], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return original(module, *args, **kwargs)


_NEVER_TRACED = Tracing(never, _call_original)


def wrap_module_call(
    original: Callable[..., Any],
    find_site: Callable[[Any], Any],
    relay: Relay,
    thread: ThreadState,
    tracing: Tracing = _NEVER_TRACED,
    around_begin: Callable[[Any], AbstractContextManager[None]] | None = None,
) -> Callable[..., Any]:
    """Return a function to stand for ``original``, the ``__call__`` of all modules, that reports their calls.

    Args:
        original: the ``__call__`` of the class of modules.
        find_site: returns the site that a module's call is recorded under, or None for a call that is not recorded.
        relay: holds the observer that is told.
        thread: is made busy while the observer works.
        tracing: what a compiler that traces a module call reads.
        around_begin: returns a context in which the observer is told that the module's call begins.
    """
    is_traced, call_traced = tracing

    # One function, as in ``wrap``: a compiler that skips this frame would compile the frames that it calls.
    @functools.wraps(original)
    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        if is_traced():
            return call_traced(original, module, args, kwargs)
        observer = relay.observer
        site = None if observer is None else find_site(module)
        if observer is None or site is None:
            return original(module, *args, **kwargs)
        with Quiet(thread):
            if around_begin is None:
                record = observer.module_begin(site, args, kwargs)
            else:
                with around_begin(module):
                    record = observer.module_begin(site, args, kwargs)
        if record is None:
            return original(module, *args, **kwargs)
        try:
            result = original(module, *args, **kwargs)
        except BaseException as error:
            with Quiet(thread):
                observer.module_fail(record, error)
            raise
        with Quiet(thread):
            observer.module_end(record, result)
        return result

    return call
