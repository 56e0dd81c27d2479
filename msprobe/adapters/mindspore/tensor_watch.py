"""Observe the gradients of one tensor, from all of its uses; ``gradient_tap`` observes those of single calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.adapters.mindspore.versions import can_have_gradient
from msprobe.core.capture.thread import ThreadState


def watch(tensor: Any, thread: ThreadState, report: Callable[[Any], None]) -> Callable[[], None] | None:
    """Report every gradient of ``tensor`` until the returned function is called.

    Returns None when the tensor cannot have a gradient.
    """
    if not can_have_gradient(tensor):
        return None

    def hook(gradient: Any) -> None:
        with thread.quiet():
            report(gradient)

    remove: Callable[[], None] = tensor.register_hook(hook).remove
    return remove
