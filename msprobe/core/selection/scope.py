"""``scope``: select the calls between two names, both included.

The window opens when the first named call begins and closes when the second one has ended. A call belongs to it when it
began inside. So the output of the last call, and everything that runs inside a last module, are still recorded.
"""

from __future__ import annotations


class ScopeWindow:
    """The state of the scope in one step: closed, open or over."""

    __slots__ = ("_first", "_last", "_open", "_over")

    def __init__(self, first: str, last: str) -> None:
        self._first = first
        self._last = last
        self._open = False
        self._over = False

    def begin(self, name: str) -> bool:
        """Note that a call begins; return whether it is in the window."""
        if name == self._first and not self._over:
            self._open = True
        return self._open

    def end(self, name: str) -> None:
        """Note that a call has ended; the last call of the scope closes the window for the rest of the step."""
        if self._open and name == self._last:
            self._open = False
            self._over = True
