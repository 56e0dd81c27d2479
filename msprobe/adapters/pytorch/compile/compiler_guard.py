"""Keep the calls that Dynamo and the compilers behind it make while they compile from being observed.

They are no calls of the program. Their tensors have no values, and a graph whose calls were observed during its trace
has lost its gradients.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from msprobe.core.capture.patching import Undo, note_applied
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import original_of
from msprobe.core.interruption import ignored

_THREADS: list[ThreadState] = []


@contextlib.contextmanager
def unobserved_compiler(thread: ThreadState) -> Iterator[None]:
    """Observe nothing in a thread that compiles, inside this context; several taps may enter it. Imports Dynamo."""
    if any(state is thread for state in _THREADS):
        yield
        return

    def remove() -> None:
        _THREADS[:] = [state for state in _THREADS if state is not thread]

    end = Undo(remove)
    note_applied(end)
    try:
        _THREADS.append(thread)
        with _compiler_callbacks(thread):
            yield
    finally:
        end.undo()


@contextlib.contextmanager
def _compiler_callbacks(thread: ThreadState) -> Iterator[None]:
    """Have Dynamo call back when it begins to compile and when it ends; PyTorch 2.6 passes nothing."""
    from torch._dynamo.callback import callback_handler

    before: list[int] = []

    def begin(*_: object) -> None:
        before.append(thread.busy)
        thread.busy = thread.compiling = True

    def end(*_: object) -> None:
        thread.busy = before.pop() if before else False
        thread.compiling = bool(before)
        restore_kernels()

    def register() -> None:
        callback_handler.register_start_callback(begin)
        callback_handler.register_end_callback(end)

    def clear() -> None:  # what torch._dynamo.reset() calls
        try:
            type(callback_handler).clear(callback_handler)
        finally:
            register()

    def remove() -> None:
        vars(callback_handler).pop("clear", None)
        for remove_one, callback in (
            (callback_handler.remove_start_callback, begin),
            (callback_handler.remove_end_callback, end),
        ):
            with ignored(ValueError):  # somebody has emptied the lists
                remove_one(callback)

    removal = Undo(remove)
    note_applied(removal)
    try:
        register()
        vars(callback_handler)["clear"] = clear
        yield
    finally:
        removal.undo()


def restore_kernels() -> None:
    """Give inductor torch's own functions: its code calls those that it has found when it was imported, maybe ours."""
    kernels = getattr(sys.modules.get("torch._inductor.select_algorithm"), "extern_kernels", None)
    for name, kept in list(getattr(kernels, "__dict__", {}).items()):
        original = original_of(kept)
        if original is not kept:
            setattr(kernels, name, original)
