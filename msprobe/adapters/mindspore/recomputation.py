"""Recomputation: is it going on, and which cells of a model are only MindSpore's means for it."""

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
    """Whether forward code runs again for the backward pass that this thread is in."""
    return _engine() != -1 and (bool(_executor.grad_flag()) or _thread.opening)


def reopens(cell: Any) -> bool:
    """Whether calling ``cell`` now begins a recomputation: it opens a graph of its own in the middle of backward."""
    return _engine() != -1 and bool(getattr(cell, "requires_grad", False))


@contextlib.contextmanager
def opening() -> Iterator[None]:
    """While a cell that ``reopens`` is looked at, before MindSpore itself says so."""
    _thread.opening = True
    try:
        yield
    finally:
        _thread.opening = False


def is_means(cell: Any) -> bool:
    """Whether ``Cell.recompute`` put this cell there."""
    return type(cell).__module__ == _HOME


def second_runner(cell: Any) -> Any:
    """The inner cell that runs ``cell`` again during backward; None when it is not recomputed that way."""
    outer = getattr(cell, "_recompute_cell", None)
    return None if outer is None else getattr(outer, "wrap_cell", None)
