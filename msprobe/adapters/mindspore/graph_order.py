"""Find the call that a value of a graph belongs to from the order of the values, where the graph cannot say it."""

from __future__ import annotations

from collections import defaultdict


class CallOrder:
    """The calls of each cell in the order in which they began.

    A forward value belongs to the running call of its cell. Gradients are assumed to arrive for the last call first.
    """

    def __init__(self) -> None:
        self._all: dict[int, list[int]] = defaultdict(list)
        self._running: dict[int, list[int]] = defaultdict(list)
        self._without_gradient: dict[tuple[int, int], list[int]] = {}

    def began(self, site: int, call: int) -> None:
        """Note that a call of the cell ``site`` has begun."""
        self._all[site].append(call)
        self._running[site].append(call)

    def ended(self, site: int) -> int:
        """Return the call that is over; 0 when none was running."""
        return self._running[site].pop() if self._running[site] else 0

    def running(self, site: int) -> int:
        """Return the running call of the cell; 0 when there is none."""
        return self._running[site][-1] if self._running[site] else 0

    def for_gradient(self, site: int, place: int) -> int:
        """Return the call whose gradient at ``place`` arrives now; 0 when every call has got this gradient."""
        calls = self._without_gradient.setdefault((site, place), list(self._all[site]))
        return calls.pop() if calls else 0
