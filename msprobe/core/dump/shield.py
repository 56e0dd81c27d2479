"""The boundary between the tool and the user's program: what goes wrong in here is written down, never raised.

A tool that stops a training is worse than a record that is missing. The few broad ``except`` elsewhere make the loss
smaller than a record: one value (``capture.describe``), the gradients of one call (the collector), one line of the
journal (``store.sink``).
"""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.log import first_time, logger
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
        if first_time("shield"):
            where = "" if self._path is None else f"; this and what follows is told in {self._path}"
            logger.error("%s could not be recorded: %s (the run goes on%s)", what, error_text(error), where)
        if self._path is None or self.count > self.LIMIT:
            return
        text = f"{what}\n{''.join(traceback.format_exception(error))}\n"
        try:
            with os.fdopen(open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
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


def contained(function: F) -> F:
    """Make a function of the public interface safe: what is wrong with its arguments is raised (MsprobeException, or
    TypeError for arguments it does not have), anything else is one line in the log, and the answer is None.
    """

    @functools.wraps(function)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MsprobeException:
            raise
        except Exception as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is None:
                raise  # the call itself was wrong
            name = function.__qualname__.rpartition(".")[2]
            logger.error("%s failed: %s (the run goes on, what it records may be incomplete)", name, error_text(error))
            logger.debug("%s", "".join(traceback.format_exception(error)))
            return None

    return safe  # type: ignore[return-value]


def _subject(args: tuple[Any, ...]) -> str:
    first = args[0] if args else "a call"
    return str(getattr(first, "name", None) or getattr(first, "stem", None) or type(first).__name__)
