"""There is one debugger per process: between two uses of it in one process it is ended and forgotten."""

from __future__ import annotations

import importlib

from msprobe.core.dump.session import process_debugger


def forget(facade: str = "msprobe.pytorch") -> None:
    """End the debugger of this process as its exit would, as if the process were new."""
    session = process_debugger.peek()
    if session is not None:
        process_debugger.put(None)
        session.close()
    importlib.import_module(facade).PrecisionDebugger._instance = None
