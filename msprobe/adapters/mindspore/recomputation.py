"""Find out whether a recomputation is running, and which cells of a model MindSpore added for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from msprobe.adapters.mindspore.versions import engine_of_backward, native_executor

_HOME = "mindspore.common.recompute"
_executor, _engine = native_executor(), engine_of_backward()


class _Thread(threading.local):
    opening = False


_thread = _Thread()


def recomputing() -> bool:
    """Return whether forward code runs again for the backward pass of this thread."""
    return _engine() != -1 and (bool(_executor.grad_flag()) or _thread.opening)


def reopens(cell: Any) -> bool:
    """Return whether calling ``cell`` now begins a recomputation: it opens its own graph during a backward pass."""
    return _engine() != -1 and bool(getattr(cell, "requires_grad", False))


@contextlib.contextmanager
def opening() -> Iterator[None]:
    """Mark this thread as recomputing, before MindSpore does that itself."""
    _thread.opening = True
    try:
        yield
    finally:
        _thread.opening = False


def is_recompute_cell(cell: Any) -> bool:
    """Return whether ``Cell.recompute`` added this cell."""
    return type(cell).__module__ == _HOME


def second_runner(cell: Any) -> Any:
    """Return the inner cell that runs ``cell`` again during backward; None when it is not recomputed that way."""
    outer = getattr(cell, "_recompute_cell", None)
    return None if outer is None else getattr(outer, "wrap_cell", None)
