"""The progress bar of long commands, on a terminal.

It needs ``rich``; in a pipe, in a log or without the package nothing is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class ShowProgress(Protocol):
    """Draws how much of the work is done, and ``text`` before the bar where it is given."""

    def __call__(self, done: float, total: float, text: str = "") -> None: ...


@contextmanager
def progress_bar(text: str, unit: str, *, quiet: bool = False) -> Iterator[ShowProgress | None]:
    """Open a bar on the error stream and yield the function that moves it; None where nothing is drawn.

    The bar is drawn only when the function is called, so that no further thread runs beside the work.

    Args:
        text: the words before the bar until a call gives others.
        unit: the word behind the numbers, such as ``pairs``.
        quiet: draw nothing.
    """
    console = None if quiet else terminal_console(sys.stderr)
    if console is None:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(text, total=None)
        bar.refresh()

        def show(done: float, total: float, text: str = "") -> None:
            bar.update(task, completed=done, total=total, description=text or None, refresh=True)

        yield show


def terminal_console(stream: Any) -> Any:
    """Return a console of ``rich`` for a stream; None when it is no terminal, or without the package."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream)
