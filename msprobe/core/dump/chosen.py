"""Filter steps and ranks by ``step`` and ``rank`` of the configuration; log once when nothing is selected."""

from __future__ import annotations

from msprobe.core.config import DumpConfig, IntRanges
from msprobe.core.log import logger


class StepRankFilter:
    """The steps and ranks that a configuration selects; an empty list selects all."""

    def __init__(self, config: DumpConfig) -> None:
        self._steps = config.step
        self._ranks = config.rank
        self._logged = False
        self._rejected: tuple[int, int] | None = None  # the first and the last step that were left out
        self._collected = False

    def step(self, number: int) -> bool:
        """Return whether step ``number`` is collected."""
        if not self._steps or number in self._steps:
            self._collected = True
            return True
        self._rejected = (self._rejected or (number, number))[0], number
        if number > self._steps.last and not self._logged:
            self._logged = True
            logger.info("all steps asked for (up to %d) are over: nothing more is collected", self._steps.last)
        return False

    def conclude(self) -> None:
        """Warn at the end of the run when none of the selected steps came."""
        if self._rejected is not None and not self._collected:
            first, last = self._rejected
            run = f"step {first}" if first == last else f"steps {first} to {last}"
            logger.warning(
                "nothing was collected: the configuration asks for step %s, this run had %s (step() counts, from 0)",
                _first_items(self._steps),
                run,
            )

    def rank(self, rank: int | None) -> bool:
        """Return whether the process of ``rank`` is collected; a list of ranks never selects a process without rank."""
        if not self._ranks or (rank is not None and rank in self._ranks):
            return True
        if not self._logged:
            self._logged = True
            logger.warning(
                "nothing is collected: the configuration asks for rank %s, this process is %s",
                _first_items(self._ranks),
                "without a rank" if rank is None else f"rank {rank}",
            )
        return False


def _first_items(ranges: IntRanges) -> str:
    items = ranges.to_list()
    return ", ".join(map(str, items[:8])) + (", ..." if len(items) > 8 else "")
