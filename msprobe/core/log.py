"""The logger ``msprobe``: one line per event, on standard output, without touching the root logger.

A line is ``2026-01-31 12:00:00 (4711) [rank 3] [WARNING] text``; the rank appears after ``set_rank``. The environment
variable ``MSPROBE_LOG_LEVEL`` chooses 0 debug, 1 info (default), 2 warning, 3 error, 4 silent.

    from msprobe.core.log import logger, first_time
    if first_time("no-model"):
        logger.warning("...")
"""

import logging
import os
import re
import sys
import threading
from collections.abc import Hashable
from typing import Literal, TextIO

from msprobe.core.interruption import let_through

LEVEL_VARIABLE = "MSPROBE_LOG_LEVEL"
_LEVELS = {
    "0": logging.DEBUG,
    "1": logging.INFO,
    "2": logging.WARNING,
    "3": logging.ERROR,
    "4": logging.CRITICAL + 1,
}
# Names of user modules and values of user data reach the log: they must not be able to steer the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

logger = logging.getLogger("msprobe")


class _Formatter(logging.Formatter):
    """Formats time, process id, rank (once set), level and text; control characters become visible."""

    rank: int | None = None

    def format(self, record: logging.LogRecord) -> str:
        rank = "" if self.rank is None else f" [rank {self.rank}]"
        time = self.formatTime(record, "%Y-%m-%d %H:%M:%S")
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        safe = _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)
        # The pid is read here, not taken from the record: a forked child must not show the pid of its parent.
        return f"{time} ({os.getpid()}){rank} [{record.levelname}] {safe}"


class _StandardStream(logging.Handler):
    """Writes to the ``sys.stdout`` (or ``sys.stderr``) of that moment, so that redirection works."""

    stream_name: Literal["stdout", "stderr"] = "stdout"

    def emit(self, record: logging.LogRecord) -> None:
        stream: TextIO | None = getattr(sys, self.stream_name)
        if stream is None:
            return
        try:
            self._write(stream, self.format(record) + "\n")
        except (OSError, ValueError) as error:  # a closed or full stream must never disturb the training
            let_through(error)

    @staticmethod
    def _write(stream: TextIO, line: str) -> None:
        try:
            stream.write(line)
        except UnicodeEncodeError:  # an ASCII terminal still gets the line
            stream.write(line.encode("ascii", "backslashreplace").decode())
        stream.flush()


_formatter = _Formatter()
_handler = _StandardStream()
_handler.setFormatter(_formatter)
_logged_keys: set[Hashable] = set()
_logged_lock = threading.Lock()


def configure() -> None:
    """Attach the handler if it is not attached yet, and read the level from the environment again."""
    logger.propagate = False
    if _handler not in logger.handlers:
        logger.addHandler(_handler)
    level = os.environ.get(LEVEL_VARIABLE, "").strip()
    logger.setLevel(_LEVELS.get(level, logging.INFO))
    if level and level not in _LEVELS and first_time((LEVEL_VARIABLE, level)):
        logger.warning("%s=%r is not one of 0, 1, 2, 3, 4; using 1 (info).", LEVEL_VARIABLE, level)


def use_stream(name: Literal["stdout", "stderr"]) -> None:
    """Send log lines to this standard stream; the command line uses stderr, so that stdout carries results only."""
    _handler.stream_name = name


def set_rank(rank: int | None) -> None:
    """Show this rank in every following line; ``None`` shows no rank."""
    _formatter.rank = rank


def first_time(key: Hashable) -> bool:
    """Return True for the first call with this key in this process, and False for every later one. Thread-safe.

    It keeps a message from being logged again: ``if first_time("no-model"): logger.warning(...)``.
    """
    with _logged_lock:
        if key in _logged_keys:
            return False
        _logged_keys.add(key)
        return True


configure()
