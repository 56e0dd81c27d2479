"""The boundary between the tool and the user's program: an error of the tool is logged, never raised.

A tool that stops a training is worse than a record that is missing. What the program itself raises while the tool is at
work, as the handler of a signal does, is no error of the tool and passes (``core.interruption``).

The few broad ``except`` elsewhere keep the loss smaller than a record: one value (``capture.describe``), the gradients
of one call (the collector), one line of the journal (``store.sink``).
"""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger
from msprobe.core.store.safe_files import open_private

F = TypeVar("F", bound=Callable[..., Any])


class ErrorLog:
    """Count errors and write their traces into ``dump_error_info.log`` beside the dump.

    Args:
        path: that file; None to count only.
    """

    LIMIT = 200

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.count = 0

    def move(self, path: Path) -> None:
        """Write into ``path`` from now on, if traces are written at all."""
        if self._path is not None:
            self._path = path

    def note(self, what: str, error: BaseException) -> None:
        """Count an error by which ``what`` was not recorded; the first one of the process is also a line in the log."""
        self.count += 1
        if first_time("shield"):
            where = "" if self._path is None else f"; see {self._path} for this and later errors"
            logger.error("%s could not be recorded: %s (the run goes on%s)", what, error_text(error), where)
        if self._path is None or self.count > self.LIMIT:
            return
        text = f"{what}\n{''.join(traceback.format_exception(error))}\n"
        try:
            with os.fdopen(open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
        except OSError as fault:
            let_through(fault)
            self._path = None


def never_raises(function: F) -> F:
    """Decorate a method: an exception is noted in ``self.errors``, and the method returns None."""

    @functools.wraps(function)
    def safe(self: Any, *args: Any) -> Any:
        try:
            return function(self, *args)
        except Exception as error:  # noqa: BLE001  (the boundary of the package, see above)
            let_through(error)
            self.errors.note(f"{function.__name__} of {_subject(args)}", error)
            return None

    return safe  # type: ignore[return-value]


def records(function: F) -> F:
    """Decorate a method that measures tensors inside the user's program: ``never_raises``, and outside of modes.

    Where the program has modes that see each operation, the method runs without them (``Runtime.outside_modes`` of
    ``self.runtime``): they must not see what the tool computes.
    """

    @functools.wraps(function)
    def safe(self: Any, *args: Any) -> Any:
        try:
            if self.runtime.in_modes():
                with self.runtime.outside_modes():
                    return function(self, *args)
            return function(self, *args)
        except Exception as error:  # the boundary of the package, see above
            let_through(error)
            if self.runtime.expected(error):
                raise  # the end of a recomputation, which comes where an operator saves the last tensor that is needed
            self.errors.note(f"{function.__name__} of {_subject(args)}", error)
            return None

    return safe  # type: ignore[return-value]


def log_unexpected(function: F) -> F:
    """Decorate a function of the public interface: an unexpected exception is one line in the log.

    The function then returns None. Errors of the arguments are raised: MsprobeException, and TypeError for arguments
    that the function does not have.
    """

    @functools.wraps(function)
    def safe(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            let_through(error)
            if isinstance(error, MsprobeException) or error.__traceback__ is None or not error.__traceback__.tb_next:
                raise  # the call itself was wrong
            name = function.__qualname__.rpartition(".")[2]
            logger.error("%s failed: %s (the run goes on, what it records may be incomplete)", name, error_text(error))
            logger.debug("%s", "".join(traceback.format_exception(error)))
            return None

    return safe  # type: ignore[return-value]


def _subject(args: tuple[Any, ...]) -> str:
    first = args[0] if args else "a call"
    if isinstance(first, str):
        return first or "a call"
    return str(getattr(first, "name", None) or getattr(first, "stem", None) or type(first).__name__)
