"""The budgets of one process, bytes on the disk and seconds: the one that is reached first ends collection.

Seconds are counted from the first step that is recorded. A timer looks at the clock, so a call costs nothing for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from msprobe.core.config import DumpConfig
from msprobe.core.dump.bounds.disk_budget import DiskBudget
from msprobe.core.log import logger

DISK, TIME = "disk_budget", "time_budget"


class Budgets:
    """What a process may still collect.

    Args:
        on_reached: is called once, when a budget is reached, in the thread that wrote the last bytes or one of its own.
    """

    def __init__(self, on_reached: Callable[[], None]) -> None:
        self.disk = DiskBudget(on_reached)
        self._on_reached = on_reached
        self._seconds: float | None = None
        self._timer: threading.Timer | None = None
        self._over = False

    def allow(self, config: DumpConfig) -> None:
        """Set the budgets of a configuration; bytes that were written count, seconds begin anew."""
        self.end()
        self.disk.allow(config.disk_budget)
        self._seconds, self._over = config.time_budget, False

    def begin(self) -> DiskBudget:
        """Count seconds from now on, as a step is recorded, unless that was begun; return the budget of the disk."""
        if self._seconds is not None and self._timer is None:
            self._timer = threading.Timer(self._seconds, self._end_of_time)
            self._timer.daemon = True
            self._timer.start()
        return self.disk

    def end(self) -> None:
        """Count seconds no longer."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    @property
    def reached(self) -> str:
        """The key of the budget that is reached; "" for none."""
        return TIME if self._over else DISK if self.disk.reached else ""

    def warn(self, root: Path) -> None:
        """Say which budget is reached, by the dumps below ``root``."""
        if self.reached == DISK:
            self.disk.warn(root)
            return
        logger.warning(
            "time_budget: %g seconds have passed since the first recorded step: nothing more is recorded, training "
            "goes on, the dumps below %s are complete. Raise time_budget to record for longer.",
            self._seconds,
            root,
        )

    def _end_of_time(self) -> None:
        if not self.disk.reached:
            self._over = True
            self._on_reached()
