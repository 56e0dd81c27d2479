"""How far a graph job is: shown on a bar that the caller opens, or logged with a line per graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from msprobe.core.log import logger

_LONG_BYTES = 4_000_000


class MoveBar(Protocol):
    """Shows how many of how many graphs are done, and what is done now."""

    def __call__(self, done: float, total: float, text: str = "") -> None: ...


OpenBar = Callable[[], AbstractContextManager[MoveBar | None]]
"""Opens a progress bar; None inside when there is no terminal to draw it on."""


def no_bar() -> AbstractContextManager[MoveBar | None]:
    """Open no bar."""
    return nullcontext()


class Progress:
    """The progress of one job over ``total`` graphs or pairs of graphs.

    ``move`` moves a bar; without one, ``lines`` says whether a line per graph is logged.
    """

    def __init__(self, total: int = 0, *, lines: bool = False, move: MoveBar | None = None) -> None:
        self._total, self._lines, self._move = total, lines, move
        self._number, self._text = 0, ""

    def begin(self, text: str) -> None:
        """Begin the next graph; ``text`` names it."""
        self._number, self._text = self._number + 1, text
        if self._move is not None:
            self._move(self._number - 1, self._total, text)
        elif self._lines:
            logger.info("%d of %d: %s", self._number, self._total, text)

    def stage(self, share: float, what: str) -> None:
        """Show that ``share`` of the graph, 0 to 1, is done; ``what`` comes next."""
        if self._move is not None:
            self._move(self._number - 1 + share, self._total, f"{self._text}, {what}")


@contextmanager
def progress(total: int, size: int, open_bar: OpenBar, *, lines: bool = False) -> Iterator[Progress]:
    """Yield the progress of a job, with a bar where the work takes longer than a moment.

    Args:
        total: number of graphs or pairs of graphs.
        size: bytes of all documents; they say whether a single graph is worth a bar.
        open_bar: opens the bar.
        lines: log a line per graph instead.
    """
    long = not lines and (total > 1 or size > _LONG_BYTES)
    with open_bar() if long else no_bar() as move:
        yield Progress(total, lines=lines, move=move)
