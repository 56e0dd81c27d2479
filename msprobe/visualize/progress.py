"""A progress bar on a terminal, for work that takes longer than a moment; nothing elsewhere or without rich."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from msprobe.core.log import logger

_LONG = 4_000_000


class Progress:
    """Told how far the work is. ``total`` is the number of parts, ``lines`` logs each instead of drawing a bar."""

    def __init__(self, total: int = 0, *, lines: bool = False, bar: _Bar | None = None) -> None:
        self._total, self._lines, self._bar = total, lines, bar
        self._begun, self._text = 0, ""

    def begin(self, text: str) -> None:
        """The next part begins."""
        self._begun, self._text = self._begun + 1, text
        if self._bar is not None:
            self._bar.update(text, self._begun - 1)
        elif self._lines:
            logger.info("%d of %d: %s", self._begun, self._total, text)

    def stage(self, share: float, what: str) -> None:
        """``share`` of the part, 0 to 1, is done; ``what`` comes next."""
        if self._bar is not None:
            self._bar.update(f"{self._text}, {what}", self._begun - 1 + share)


@contextmanager
def progress(total: int, size: int = 0, *, lines: bool = False) -> Iterator[Progress]:
    """Gives what is to be told of the progress. ``size`` in bytes says whether a single part is worth a bar."""
    bar = None
    if not lines and (total > 1 or size > _LONG) and sys.stderr.isatty():
        bar = _bar(total)
    try:
        yield Progress(total, lines=lines, bar=bar)
    finally:
        if bar is not None:
            bar.stop()


class _Bar:
    def __init__(self, total: int) -> None:
        from rich.console import Console  # an extra, and only wanted on a terminal
        from rich.progress import Progress as Bar

        self._progress = Bar(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("reading", total=total)
        self._progress.start()

    def update(self, text: str, completed: float) -> None:
        self._progress.update(self._task, description=text, completed=completed)

    def stop(self) -> None:
        self._progress.stop()


def _bar(total: int) -> _Bar | None:
    try:
        return _Bar(total)
    except ImportError:
        return None
