"""The state of MindSpore's runtime: rank, recomputation, and exceptions that are no errors.

``MindSporeRuntime`` answers the questions of core. The functions below it say whether a recomputation is running, and
which cells of a model MindSpore added for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from mindspore import nn
from mindspore.communication import GlobalComm, get_rank

from msprobe.adapters.mindspore.taps.call_counter import calls_of
from msprobe.adapters.mindspore.versions import engine_of_backward, native_executor
from msprobe.core.dump.session.debugger import counted_model

_HOME = "mindspore.common.recompute"

_EARLY_EXITS = ("_StopRecomputationError", "_StopRecomputeException")
_executor, _engine = native_executor(), engine_of_backward()


class MindSporeRuntime:
    """Implements ``Runtime``."""

    def rank(self) -> int | None:
        return int(get_rank()) if GlobalComm.INITED else None

    def recomputing(self) -> bool:
        return recomputing()

    def in_written_backward(self) -> bool:
        return False

    def expected(self, error: BaseException) -> bool:
        return type(error).__name__ in _EARLY_EXITS

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        return calls_of(nn.Cell, counted_model(model, nn.Cell, "mindspore.nn.Cell"), report)


def is_scheduler() -> bool:
    """Return whether this process is the scheduler of a job, which runs no model."""
    return os.environ.get("MS_ROLE") == "MS_SCHED"


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
