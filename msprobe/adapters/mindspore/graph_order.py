"""Which call a value belongs to where a graph cannot say it: told from the order in which the values come."""

from __future__ import annotations

from collections import defaultdict


class CallsByOrder:
    """Forward, a value is of the call of its cell that runs; gradients are taken to come to the last call first."""

    def __init__(self) -> None:
        self._all: dict[int, list[int]] = defaultdict(list)
        self._running: dict[int, list[int]] = defaultdict(list)
        self._unmet: dict[tuple[int, int], list[int]] = {}

    def began(self, site: int, call: int) -> None:
        self._all[site].append(call)
        self._running[site].append(call)

    def ended(self, site: int) -> int:
        """The call that is over; 0 when none was running."""
        return self._running[site].pop() if self._running[site] else 0

    def running(self, site: int) -> int:
        return self._running[site][-1] if self._running[site] else 0

    def of_gradient(self, site: int, place: int) -> int:
        """The call whose gradient at ``place`` comes now; 0 when every call has met its own."""
        unmet = self._unmet.setdefault((site, place), list(self._all[site]))
        return unmet.pop() if unmet else 0
