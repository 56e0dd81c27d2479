"""``module_dump``: record the inputs and outputs of one module, and nothing inside it."""

from __future__ import annotations

from typing import Any

from msprobe.core.dump import handle
from msprobe.core.dump.shield import log_unexpected


@log_unexpected
def module_dump(module: Any, dump_name: str) -> None:
    """Record ``module`` alone, as ``Module.{dump_name}.{Class}``, until ``module_dump_end``.

    Raises:
        MsprobeException: there is no debugger, or an argument is of the wrong type.
    """
    with handle.LOCK:
        handle.current().focus(module, dump_name)


@log_unexpected
def module_dump_end() -> None:
    """End ``module_dump``: record as configured again."""
    with handle.LOCK:
        handle.current().focus_end()
