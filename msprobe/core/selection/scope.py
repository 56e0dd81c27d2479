"""``scope``: the window between two names, both ends included whole.

The window opens when the first named call begins and closes when the second one has ended. A call belongs to it when
it began inside, so nothing is cut: neither the closing call's output nor what runs inside a closing module.
"""

from __future__ import annotations


class ScopeWindow:
    """The state machine of one step: closed, open, over."""

    __slots__ = ("_first", "_last", "_open", "_over")

    def __init__(self, first: str, last: str) -> None:
        self._first = first
        self._last = last
        self._open = False
        self._over = False

    def begin(self, name: str) -> bool:
        """A call begins: does it lie in the window?"""
        if name == self._first and not self._over:
            self._open = True
        return self._open

    def end(self, name: str) -> None:
        """A call has ended; the last one of the scope closes the window for the rest of the step."""
        if self._open and name == self._last:
            self._open = False
            self._over = True
