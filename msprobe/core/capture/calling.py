"""Mark the time in which an observed function itself runs, where the operators it calls are recorded too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.core.capture.look_alike import copy_signature
from msprobe.core.capture.thread import CALLING, ThreadState
from msprobe.core.capture.wrap import never


def mark_calling(
    original: Callable[..., Any], thread: ThreadState, traced: Callable[[], bool] = never
) -> Callable[..., Any]:
    """Return a callable that behaves like ``original`` and runs it with ``thread.busy`` at ``CALLING``.

    Args:
        original: the function to run.
        thread: the state to mark.
        traced: tells whether a compiler reads the code; see ``wrap``.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if traced():
            return original(*args, **kwargs)
        busy, thread.busy = thread.busy, CALLING
        try:
            return original(*args, **kwargs)
        finally:
            thread.busy = busy

    copy_signature(call, original)
    return call
