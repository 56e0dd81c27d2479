"""What the watched collectives of all frameworks share: handles that are waited for, and the line that calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Waited:
    """Stands for the handle of an asynchronous call, and reports when the program has waited for it the first time.

    Args:
        handle: the handle.
        report: is called once.
    """

    def __init__(self, handle: Any, report: Callable[[], None]) -> None:
        self._handle = handle
        self._report: Callable[[], None] | None = report

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait as the handle does."""
        result = self._handle.wait(*args, **kwargs)
        report, self._report = self._report, None
        if report is not None:
            report()
        return result


def calling_line(package: str) -> str:
    """Return file and line of the program that calls the function whose wrapper asks: ``train.py[23]``.

    Args:
        package: files below this folder belong to the framework, not to the program.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}[{frame.f_lineno}]"
