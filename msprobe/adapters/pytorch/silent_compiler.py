"""What Dynamo and the compilers behind it call while they compile is no call of the program.

It must not be observed either: what they try out has no values, and a graph in which calls were observed while it was
made has lost its gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from msprobe.core.capture.thread import ThreadState

_SILENT: list[ThreadState] = []


@contextlib.contextmanager
def unobserved_compiler(thread: ThreadState) -> Iterator[None]:
    """Inside, nothing is observed in a thread that compiles. Several taps may ask for it; imports Dynamo."""
    if any(state is thread for state in _SILENT):
        yield
        return
    _SILENT.append(thread)
    try:
        with _told(thread):
            yield
    finally:
        _SILENT.remove(thread)


@contextlib.contextmanager
def _told(thread: ThreadState) -> Iterator[None]:
    """Dynamo tells when it begins to compile, and when it ends."""
    from torch._dynamo.callback import callback_handler

    before: list[int] = []

    def begin(_: object) -> None:
        before.append(thread.busy)
        thread.busy = thread.compiling = True

    def end(_: object) -> None:
        thread.busy = before.pop() if before else False
        thread.compiling = bool(before)

    def register() -> None:
        callback_handler.register_start_callback(begin)
        callback_handler.register_end_callback(end)

    def clear() -> None:  # what torch._dynamo.reset() calls
        try:
            type(callback_handler).clear(callback_handler)
        finally:
            register()

    register()
    vars(callback_handler)["clear"] = clear
    try:
        yield
    finally:
        vars(callback_handler).pop("clear", None)
        with contextlib.suppress(ValueError):  # somebody has emptied the lists
            callback_handler.remove_start_callback(begin)
            callback_handler.remove_end_callback(end)
