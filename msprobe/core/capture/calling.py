"""Mark the time in which an observed function itself runs, where the operators it calls are recorded too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.core.capture.look_alike import look_like
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

    look_like(call, original)
    return call
