"""Report the calls of one model, to count tokens."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from msprobe.core.capture.patching import Patches


def calls_of(kind: Any, model: Any, report: Callable[[], None]) -> Callable[[], None]:
    """Report each call of ``model``, a cell or module of class ``kind``, until the returned function is called."""
    watched = weakref.ref(model)
    original = kind.__call__

    @functools.wraps(original)
    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        if module is watched():
            report()
        return original(module, *args, **kwargs)

    patches = Patches()
    patches.plan(kind, "__call__", call)
    patches.apply()

    def undo() -> None:
        if kind.__call__ is call:
            patches.undo()

    return undo
