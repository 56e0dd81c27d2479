"""How many bytes a process may write into its dumps: counted by those who write, never by walking folders.

An open step counts its journal twice, as ``publish`` writes the same bytes once more before the journal goes; a step
that has ended counts what it left. So the budget holds at every moment, up to what one tick of the flusher and one
tensor file bring after it is reached.

Processes of a job on one machine share the budget in equal parts, where the launcher says how many they are
(``LOCAL_WORLD_SIZE``, as torchrun sets it); otherwise each process has the whole of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from msprobe.core.log import logger

_PROCESSES = "LOCAL_WORLD_SIZE"


class DiskBudget:
    """The budget of one process.

    Args:
        on_reached: is called once, in the thread that wrote the last bytes, when the budget is reached.

    Attributes:
        limit: the bytes that this process may write; None for any number.
        used: the bytes written so far.
    """

    def __init__(self, on_reached: Callable[[], None]) -> None:
        self.limit: int | None = None
        self.used = 0
        self._on_reached = on_reached
        self._over = False
        self._lock = threading.Lock()

    def allow(self, total: int | None) -> None:
        """Set the budget of all processes on this machine; what was used so far counts."""
        self.limit = None if total is None else max(total // processes_here(), 1)
        self._over = self.limit is not None and self.used >= self.limit

    @property
    def reached(self) -> bool:
        """Whether nothing more may be written: the budget was reached once."""
        return self._over

    def warn(self, root: Path) -> None:
        """Say that the budget is reached, by the dumps below ``root``."""
        logger.warning(
            "disk_budget: the dumps of this process below %s come to %d bytes, and it may write %d: nothing more is "
            "recorded, training goes on, what is there is complete. Raise disk_budget or record less.",
            root,
            self.used,
            self.limit,
        )

    def spend(self, count: int) -> None:
        """Count bytes that were written, or a negative number that were removed."""
        with self._lock:
            self.used += count
            tell = self.limit is not None and self.used >= self.limit and not self._over
            self._over = self._over or tell
        if tell:
            self._on_reached()


class StepAccount:
    """What one step has written (implements ``Account``).

    Args:
        budget: the budget of the process.
    """

    def __init__(self, budget: DiskBudget) -> None:
        self._budget = budget
        self._documents = 0
        self._tensors = 0

    @property
    def reached(self) -> bool:
        """Whether nothing more may be written."""
        return self._budget.reached

    def set_documents(self, size: int) -> None:
        """Count ``size`` bytes for the documents and the journal of the step, in place of what they counted before."""
        if size != self._documents:
            change, self._documents = size - self._documents, size
            self._budget.spend(change)

    def add_tensor(self, path: str) -> None:
        """Count a tensor file that was written; a link to an earlier one takes no space."""
        if self._budget.limit is None:
            return
        facts = os.stat(path)
        if facts.st_nlink == 1:
            self._tensors += facts.st_size
            self._budget.spend(facts.st_size)

    def refund(self) -> None:
        """Count nothing for this step: its files were removed."""
        change, self._documents, self._tensors = self._documents + self._tensors, 0, 0
        self._budget.spend(-change)


def processes_here() -> int:
    """Return how many processes of the job the launcher has started on this machine; 1 where it does not say so."""
    text = os.environ.get(_PROCESSES, "")
    return max(int(text), 1) if text.isdecimal() and len(text) < 7 else 1
