"""Which of the records that wait for work in the background are in the journal already, as they were when they came.

What waits may wait for long (a queue of tensor files on a slow disk), and a process that is killed meanwhile must not
lose the rest of what was seen. So a waiting record is written at the next beat as it is, and again when its work is
done: a later body adds to the earlier one.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Backlog(Protocol):
    """Work in the background, counted: a job that was put as number n is done when ``done`` has reached n."""

    @property
    def put(self) -> int: ...

    @property
    def done(self) -> int: ...

    def settle_statistics(self) -> None: ...


class Shown:
    """Counts at the front of a list of waiting records; the owner of the list holds its lock around every call."""

    def __init__(self) -> None:
        self.count = 0
        self._marks: deque[tuple[int, int]] = deque()
        self._gone = 0

    def forget(self) -> None:
        """All that waited has been written whole."""
        self.count = self._gone = 0
        self._marks.clear()

    def completed(self, done: int) -> int:
        """How many of the shown records are complete when ``done`` jobs are; they are counted out."""
        end = self._gone
        while self._marks and self._marks[0][0] <= done:
            end = self._marks.popleft()[1]
        number, self._gone = end - self._gone, end
        self.count -= number
        return number

    def add(self, count: int, put: int) -> None:
        """``count`` records are shown now, and complete when the jobs up to number ``put`` are done."""
        self.count = count
        self._marks.append((put, self._gone + count))
