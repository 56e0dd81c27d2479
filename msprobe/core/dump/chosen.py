"""``step`` and ``rank`` of the configuration: which steps and processes are collected, with one word when none is."""

from __future__ import annotations

from msprobe.core.config import DumpConfig
from msprobe.core.log import logger


class Chosen:
    """The steps and ranks that a configuration asks for; empty means all."""

    def __init__(self, config: DumpConfig) -> None:
        self._steps = config.step
        self._ranks = config.rank
        self._said = False

    def step(self, number: int) -> bool:
        """Whether step ``number`` is collected."""
        if not self._steps or number in self._steps:
            return True
        if number > self._steps.last and not self._said:
            self._said = True
            logger.info("all steps asked for (up to %d) are over: nothing more is collected", self._steps.last)
        return False

    def rank(self, rank: int | None) -> bool:
        """Whether the process of ``rank`` is collected; one without a rank is in no list of ranks."""
        if not self._ranks or (rank is not None and rank in self._ranks):
            return True
        if not self._said:
            self._said = True
            logger.warning(
                "nothing is collected: the configuration asks for rank %s, this process is %s",
                ", ".join(str(rank) for rank in list(self._ranks)[:8]),
                "without a rank" if rank is None else f"rank {rank}",
            )
        return False
