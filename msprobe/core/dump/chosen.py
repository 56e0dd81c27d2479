"""``step`` and ``rank`` of the configuration: which steps and processes are collected, with one word when none is."""

from __future__ import annotations

from msprobe.core.config import DumpConfig, IntRanges
from msprobe.core.log import logger


class Chosen:
    """The steps and ranks that a configuration asks for; empty means all."""

    def __init__(self, config: DumpConfig) -> None:
        self._steps = config.step
        self._ranks = config.rank
        self._said = False
        self._met: tuple[int, int] | None = None  # the first and the last step that were left out
        self._collected = False

    def step(self, number: int) -> bool:
        """Whether step ``number`` is collected."""
        if not self._steps or number in self._steps:
            self._collected = True
            return True
        self._met = (self._met or (number, number))[0], number
        if number > self._steps.last and not self._said:
            self._said = True
            logger.info("all steps asked for (up to %d) are over: nothing more is collected", self._steps.last)
        return False

    def conclude(self) -> None:
        """At the end of the run: say so when none of the steps asked for came."""
        if self._met is not None and not self._collected:
            first, last = self._met
            run = f"step {first}" if first == last else f"steps {first} to {last}"
            logger.warning(
                "nothing was collected: the configuration asks for step %s, this run had %s (step() counts, from 0)",
                _some(self._steps),
                run,
            )

    def rank(self, rank: int | None) -> bool:
        """Whether the process of ``rank`` is collected; one without a rank is in no list of ranks."""
        if not self._ranks or (rank is not None and rank in self._ranks):
            return True
        if not self._said:
            self._said = True
            logger.warning(
                "nothing is collected: the configuration asks for rank %s, this process is %s",
                _some(self._ranks),
                "without a rank" if rank is None else f"rank {rank}",
            )
        return False


def _some(ranges: IntRanges) -> str:
    items = ranges.to_list()
    return ", ".join(map(str, items[:8])) + (", ..." if len(items) > 8 else "")
