"""The gradients of one tensor, whatever computes with it; ``gradient_tap`` observes those of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.core.capture.thread import ThreadState, quiet_hook


class _TensorHook:
    """Pass every gradient of one tensor to ``report``."""

    __slots__ = ("_report", "_thread")

    def __init__(self, thread: ThreadState, report: Callable[[Any], None]) -> None:
        self._thread = thread
        self._report = report

    @quiet_hook
    def __call__(self, gradient: Any, others: Any = None) -> None:
        self._report(gradient)


def watch(tensor: Any, thread: ThreadState, report: Callable[[Any], None]) -> Callable[[], None] | None:
    """Report every gradient of ``tensor`` until the returned function is called; return None when it can have none."""
    if not tensor.requires_grad:
        return None
    remove: Callable[[], None] = tensor.register_hook(_TensorHook(thread, report)).remove
    return remove
