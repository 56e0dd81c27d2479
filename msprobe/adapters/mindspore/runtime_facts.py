"""Read the state of MindSpore as plain values: version, mode, device, compiled graphs, and whether code is recomputed.

The second half tells recomputation: whether one is running, and which cells MindSpore added to a model for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import mindspore

from msprobe.adapters.mindspore.versions import (
    compiled_graphs,
    engine_of_backward,
    executor,
    jit_level,
    native_executor,
    number,
)
from msprobe.core.backend.mindspore_modes import RuntimeFacts


def runtime_facts() -> RuntimeFacts:
    """Return the mode, jit level, device and version of this process."""
    return RuntimeFacts(
        graph_mode=in_graph_mode(),
        jit_level=jit_level(),
        device=str(mindspore.get_context("device_target")),
        version=number(),
    )


def in_graph_mode() -> bool:
    """Return whether graphs are static (GRAPH_MODE) at the moment."""
    return bool(mindspore.get_context("mode") == mindspore.GRAPH_MODE)


def on_cpu() -> bool:
    """Return whether the target device is the CPU, where every tensor lies in memory that this process can read."""
    return bool(mindspore.get_context("device_target") == "CPU")


def graph_compiled() -> bool:
    """Return whether a graph or a jit function has been compiled in this process."""
    return any(compiled_graphs())


def settle() -> None:
    """Wait until everything that was launched has run; graphs under a gradient run asynchronously.

    Raises:
        RuntimeError: a kernel of the user's program failed, as it would where its result is read.
    """
    executor().sync()


# ---- recomputation ----

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
