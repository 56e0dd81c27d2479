"""A progress bar on a terminal, for work that takes longer than a moment; nothing elsewhere or without rich."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msprobe.core.log import logger

Advance = Callable[[str], None]
_LONG = 4_000_000


@contextmanager
def progress(total: int, size: int = 0, *, lines: bool = False) -> Iterator[Advance]:
    """Gives a function to call with a text when the next of ``total`` parts begins. ``lines`` logs each text.

    ``size`` in bytes says whether a single part is worth a bar.
    """
    bar = None
    if not lines and (total > 1 or size > _LONG) and sys.stderr.isatty():
        bar = _bar(total)
    done = 0

    def advance(text: str) -> None:
        nonlocal done
        done += 1
        if bar is not None:
            bar.update(text, done - 1)
        elif lines:
            logger.info("%d of %d: %s", done, total, text)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


class _Bar:
    def __init__(self, total: int) -> None:
        from rich.console import Console  # an extra, and only wanted on a terminal
        from rich.progress import Progress

        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", total=total)
        self._progress.start()

    def update(self, text: str, completed: int) -> None:
        self._progress.update(self._task, description=text, completed=completed)

    def stop(self) -> None:
        self._progress.stop()


def _bar(total: int) -> _Bar | None:
    try:
        return _Bar(total)
    except ImportError:
        return None
