"""The boundary between the tool and the user's program: what goes wrong in here is written down, never raised.

The only broad ``except`` on the way of a record. A tool that stops a training is worse than a record that is missing.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msprobe.core.log import logger, once
from msprobe.core.store.atomic import open_private

F = TypeVar("F", bound=Callable[..., Any])


class ErrorLog:
    """Counts what went wrong and keeps the traces in ``dump_error_info.log`` beside the dump."""

    LIMIT = 200

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.count = 0

    def move(self, path: Path) -> None:
        """The log has another name from now on."""
        if self._path is not None:
            self._path = path

    def note(self, what: str, error: BaseException) -> None:
        self.count += 1
        if once("shield"):
            logger.error("%s could not be recorded: %s: %s (the run goes on)", what, type(error).__name__, error)
        if self._path is None or self.count > self.LIMIT:
            return
        text = f"{what}\n{''.join(traceback.format_exception(error))}\n"
        try:
            import os

            with os.fdopen(open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "a") as file:
                file.write(text)
        except OSError:
            self._path = None


def shielded(function: F) -> F:
    """Make a method of the collector safe: an exception is noted in ``self.errors`` and the answer is None."""

    @functools.wraps(function)
    def safe(self: Any, *args: Any) -> Any:
        try:
            return function(self, *args)
        except Exception as error:  # noqa: BLE001  (the boundary of the package, see above)
            self.errors.note(f"{function.__name__} of {_subject(args)}", error)
            return None

    return safe  # type: ignore[return-value]


def _subject(args: tuple[Any, ...]) -> str:
    first = args[0] if args else "a call"
    return str(getattr(first, "name", None) or getattr(first, "stem", None) or type(first).__name__)
