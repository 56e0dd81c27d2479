"""What the monitor computes while a ``PrecisionDebugger`` collects: it is not recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from msprobe.core.dump.record.error_boundary import never_raises
from msprobe.core.dump.session import process_debugger

F = TypeVar("F", bound=Callable[..., Any])


def unrecorded(function: F) -> F:
    """Decorate a method that a hook calls: ``never_raises``, and what it calls is not recorded by the debugger."""
    safe = never_raises(function)

    @functools.wraps(function)
    def quiet(self: Any, *args: Any) -> Any:
        thread = getattr(process_debugger.peek(), "thread", None)
        if thread is None:
            return safe(self, *args)
        with thread.quiet():
            return safe(self, *args)

    return quiet  # type: ignore[return-value]
