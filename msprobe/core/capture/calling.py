"""Mark the time in which an observed function itself runs, where the operators it calls are recorded too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from msprobe.core.capture.thread import CALLING, ThreadState
from msprobe.core.capture.wrap import never


def calling(
    original: Callable[..., Any], thread: ThreadState, traced: Callable[[], bool] = never
) -> Callable[..., Any]:
    """A callable that behaves like ``original`` and runs it with ``thread.busy`` at ``CALLING``.

    ``traced``: see ``wrap``.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if traced():
            return original(*args, **kwargs)
        busy, thread.busy = thread.busy, CALLING
        try:
            return original(*args, **kwargs)
        finally:
            thread.busy = busy

    try:
        functools.update_wrapper(call, original)
    except (AttributeError, TypeError):  # a callable without the usual attributes
        call.__wrapped__ = original  # type: ignore[attr-defined]
    return call
